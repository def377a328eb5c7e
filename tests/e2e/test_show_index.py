"""`chimera show` on several conversations: a folder with an index, loops first, and a page each."""

import json
import re
from collections.abc import Callable
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from chimeralab.report import conversation as index_module

TOPICS = ["The ferry sails at noon.", "Whales sleep upright.", "Our baker retired.", "Rust is red."]
LOOP = "Let me try that once more."


@pytest.fixture
def show(
    chimera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    return partial(chimera, "show")


def write_logs(folder: Path, talks: dict[str, list[str]]) -> Path:
    folder.mkdir()
    for number, (name, turns) in enumerate(talks.items()):
        line = json.dumps({"id": name, "turns": turns})
        (folder / f"{number}.jsonl").write_text(line + "\n", encoding="utf-8")
    return folder


def names(page: str) -> list[str]:
    return [unescape(name) for name in re.findall(r'<a href="[^"#]+\.html"><bdi>(.*?)</bdi>', page)]


def test_folder_gives_an_index_with_loops_first_and_a_page_for_each(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    talks = {"healthy": TOPICS, "stuck": [*TOPICS, *[LOOP] * 5], "short": ["Hi."]}
    ran = show(write_logs(tmp_path / "logs", talks), "--no-vectors")
    assert (ran.code, ran.out) == (0, f"{Path('conversations') / 'index.html'}\n")
    page = Path("conversations/index.html").read_text("utf-8")
    assert names(page) == ["stuck", "healthy", "short"]
    assert "1 of 3 conversations loops" in page
    row = unescape(re.sub(r"<[^>]+>", " ", page[page.index("<bdi>stuck") :].split("</tr>")[0]))
    assert "Let me try that once more. same text again 5 of 9" in " ".join(row.split())
    for target in re.findall(r'<a href="([^"#]+)"', page):
        other = (Path("conversations") / target).read_text("utf-8")
        assert '<a href="index.html">All conversations</a>' in other


@pytest.mark.weights
def test_collapse_comes_after_loops_and_few_conversations_all_have_charts(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    logs = write_logs(tmp_path / "logs", {"calm": [*TOPICS, "Bees dance."], "stuck": [LOOP] * 6})
    assert show(logs, "--detector", "locked", "--out", "pages").code == 0
    page = Path("pages/index.html").read_text("utf-8")
    assert names(page) == ["stuck", "calm"]
    assert "turn 5 repeats turn 4: “Let me try that once more.”" in unescape(page)
    for name in ("calm", "stuck"):
        assert "<svg" in (Path("pages") / f"conversation-{name}.html").read_text("utf-8")


@pytest.mark.weights
def test_of_many_conversations_those_that_loop_have_charts(
    show: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MAX_ILLUSTRATED", 1)
    talks = {"calm": TOPICS, "stuck": [LOOP] * 6, "also": [LOOP] * 7}
    assert show(write_logs(tmp_path / "logs", talks)).code == 0
    pictured = {
        path.stem for path in Path("conversations").glob("c*") if "<svg" in path.read_text("utf-8")
    }
    assert pictured == {"conversation-stuck"}
    assert "only 1 of those that loop" in Path("conversations/index.html").read_text("utf-8")


def test_conversations_with_the_same_name_have_a_page_each(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    logs = write_logs(tmp_path / "logs", {"run": TOPICS, "Run": TOPICS})
    again = json.dumps({"id": "run", "turns": TOPICS})
    (logs / "again.jsonl").write_text(again, encoding="utf-8")
    assert show(logs, "--no-vectors").code == 0
    pages = sorted(path.name for path in Path("conversations").iterdir())
    assert len({name.lower() for name in pages}) == 4


def test_text_of_a_log_stays_text_in_the_index(show: Callable[..., Any], tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    logs = write_logs(
        tmp_path / "logs", {hostile: [f"{hostile} once more, then."] * 6, "b": TOPICS}
    )
    assert show(logs, "--no-vectors").code == 0
    page = Path("conversations/index.html").read_text("utf-8")
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;[U+202E]" in page


def test_index_is_replaced_by_a_newer_one_and_nothing_else_is(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    logs = write_logs(tmp_path / "logs", {"a": TOPICS, "b": TOPICS})
    assert show(logs, "--no-vectors").code == 0
    (logs / "0.jsonl").write_text(json.dumps({"id": "c", "turns": TOPICS}), encoding="utf-8")
    assert show(logs, "--no-vectors").code == 0
    assert not Path("conversations/conversation-a.html").exists()
    ran = show(logs, "--no-vectors", "--out", logs)
    assert (ran.code, sorted(p.name for p in logs.iterdir())) == (2, ["0.jsonl", "1.jsonl"])
    assert "is not an index; choose another --out" in ran.err


def test_too_many_conversations_are_rejected_with_a_way_out(
    show: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MAX_PAGES", 2)
    logs = write_logs(tmp_path / "logs", dict.fromkeys("abc", TOPICS))
    ran = show(logs, "--no-vectors")
    assert (ran.code, [path.name for path in tmp_path.iterdir()]) == (2, ["logs"])
    assert "choose one with --id, or browse them with `chimera view`" in ran.err


@pytest.mark.weights
def test_page_says_what_repeats_before_it_draws_anything(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    logs = write_logs(tmp_path / "logs", {"stuck": [*TOPICS, *[LOOP] * 5]})
    assert show(logs, "--out", "page.html").code == 0
    page = Path("page.html").read_text("utf-8")
    said = re.sub(r"<[^>]+>", "", page[: page.index("<svg")])
    assert "messages say the same text again: 5 times, to the end" in said
    assert said.index(f"{LOOP} ×5") < said.index(TOPICS[0])
