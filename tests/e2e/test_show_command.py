"""`chimera show` as a user runs it: which conversation, which file, and what can go wrong."""

import errno
import json
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

TOPICS = [
    "The ferry sails at noon.",
    "Whales sleep upright in the deep.",
    "Our baker retired in the spring.",
]
LOOP = "Let me try that once more."
SENTENCE = "Since message 4, messages say the same text again: 5 times, to the end."


@pytest.fixture
def show(
    chimera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Any]:
    """Runs `chimera show` in an empty folder and gives its exit code and output."""
    monkeypatch.chdir(tmp_path)
    return partial(chimera, "show")


def write_log(path: Path, *ids: str) -> Path:
    lines = [json.dumps({"id": one, "turns": [*TOPICS, *[LOOP] * 5]}) for one in ids]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.jsonl", "run-1", "run-2", "other/talk")


def test_only_conversation_needs_no_id(show: Callable[..., Any], tmp_path: Path) -> None:
    ran = show(write_log(tmp_path / "one.jsonl", "run-7"))
    assert (ran.code, ran.out) == (0, "conversation-run-7.html\n")
    assert "Turns 7–8 collapsed: 2 of 8" in Path("conversation-run-7.html").read_text("utf-8")


def test_conversation_is_chosen_by_its_id(show: Callable[..., Any], log: Path) -> None:
    ran = show(log, "--id", "run-2", "--out", "page.html")
    assert (ran.code, ran.out) == (0, "page.html\n")
    assert "<title>Conversation run-2</title>" in Path("page.html").read_text("utf-8")


def test_several_conversations_are_not_drawn_on_one_page(
    show: Callable[..., Any], log: Path
) -> None:
    ran = show(log, "--out", "page.html")
    assert (ran.code, Path("page.html").exists()) == (2, False)
    assert "there are several conversations: choose one with --id" in ran.err


def test_misspelt_id_names_the_close_ones(show: Callable[..., Any], log: Path) -> None:
    ran = show(log, "--id", "run2")
    assert ran.code == 2
    assert "no conversation has the id 'run2'; did you mean 'run-2', 'run-1'?" in ran.err


def test_part_of_an_id_gets_a_suggestion(show: Callable[..., Any], log: Path) -> None:
    assert "did you mean 'other/talk'?" in show(log, "--id", "TALK").err


def test_unknown_id_lists_the_known_ones(show: Callable[..., Any], log: Path) -> None:
    assert "known: 'run-1'" in show(log, "--id", "zzzzzz").err


def test_first_of_two_conversations_with_one_id_is_shown_with_a_note(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    ran = show(write_log(tmp_path / "twice.jsonl", "run", "run"), "--id", "run")
    assert ran.code == 0
    assert "2 conversations have the id 'run'; showing the first" in ran.err


def test_id_that_is_not_a_file_name_stays_in_the_folder(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log.jsonl", "../../etc/passwd")
    ran = show(log)
    assert ran.code == 0
    assert Path(ran.out.strip()).parent == Path()
    assert {path.name for path in tmp_path.iterdir()} == {ran.out.strip(), "log.jsonl"}


def test_ids_with_the_same_file_name_get_separate_pages(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log.jsonl", "a/b", "a b")
    assert show(log, "--id", "a/b").out != show(log, "--id", "a b").out


def test_page_is_replaced_by_a_newer_one(show: Callable[..., Any], log: Path) -> None:
    show(log, "--id", "run-1", "--out", "page.html")
    show(log, "--id", "run-2", "--out", "page.html")
    assert "Conversation run-2" in Path("page.html").read_text("utf-8")


def test_log_is_never_overwritten(show: Callable[..., Any], log: Path) -> None:
    before = log.read_bytes()
    ran = show(log, "--id", "run-1", "--out", log)
    assert ran.code == 2
    assert "the file name must end in .html" in ran.err
    assert log.read_bytes() == before


def test_missing_folder_is_named_before_any_work(show: Callable[..., Any], log: Path) -> None:
    ran = show(log, "--id", "run-1", "--out", "nowhere/page.html")
    assert ran.code == 2
    assert "folder nowhere does not exist" in ran.err


def test_folder_is_not_taken_for_a_page(show: Callable[..., Any], log: Path) -> None:
    Path("page.html").mkdir()
    assert show(log, "--id", "run-1", "--out", "page.html").code == 2


def test_full_disk_leaves_nothing_behind(
    show: Callable[..., Any], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    ran = show(log, "--id", "run-1", "--out", "page.html")
    assert ran.code == 2
    assert "page.html can't be written (No space left on device)" in ran.err
    assert {path.name for path in Path().iterdir()} == {"log.jsonl"}


def test_empty_log_is_bad_input(show: Callable[..., Any], tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert show(empty).code == 2


def test_changed_threshold_is_marked_on_the_page(show: Callable[..., Any], log: Path) -> None:
    show(log, "--id", "run-1", "--s1", "0.99", "--out", "page.html")
    page = Path("page.html").read_text("utf-8")
    assert "this is not the locked rule: s1 = 0.99 instead of 0.92" in page


def test_unknown_speaker_is_bad_input(show: Callable[..., Any], log: Path) -> None:
    ran = show(log, "--id", "run-1", "--speaker", "nobody")
    assert ran.code == 2
    assert "no turn by 'nobody'" in ran.err


def test_page_can_be_opened_in_the_browser(
    show: Callable[..., Any], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def fail_to_open(url: str) -> bool:
        opened.append(url)
        return False

    monkeypatch.setattr(webbrowser, "open", fail_to_open)
    ran = show(log, "--id", "run-1", "--open")
    assert opened == [Path("conversation-run-1.html").resolve().as_uri()]
    assert "no browser could be started; open conversation-run-1.html yourself" in ran.err


def tool_loop(path: Path) -> Path:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": '{"c": "make"}'}}],
    }
    back = {"role": "tool", "tool_call_id": "a", "content": "make: *** <b>stop</b>"}
    messages = [{"role": "user", "content": "Go."}, *[call, back] * 5]
    path.write_text(json.dumps({"id": "tools", "messages": messages}) + "\n", encoding="utf-8")
    return path


def test_loop_of_tool_calls_is_shown_where_the_locked_rule_has_no_verdict(
    show: Callable[..., Any], tmp_path: Path
) -> None:
    assert show(tool_loop(tmp_path / "log.jsonl"), "--out", "page.html").code == 0
    page = Path("page.html").read_text("utf-8")
    assert "<bdi>assistant</bdi> makes the same call: 5 times, to the end." in page
    assert '<a class="go" href="#message-2"' in page
    assert "No verdict on collapse: 0 judged turns" in page
    assert "make: *** &lt;b&gt;stop&lt;/b&gt;" in page


def test_without_vectors_nothing_is_embedded_and_nothing_drawn(
    show: Callable[..., Any], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an encoder was opened")

    monkeypatch.setattr("chimeralab.embedding.encoder.MiniLMEncoder.__init__", refuse)
    assert show(log, "--id", "run-1", "--no-vectors", "--out", "page.html").code == 0
    page = Path("page.html").read_text("utf-8")
    assert "Without vectors there is no timeline and no heat map either." in page
    assert SENTENCE in page
    assert "<svg" not in page


@pytest.mark.parametrize(
    ("which", "marks"),
    [("both", (True, True)), ("loops", (True, False)), ("locked", (False, True))],
)
def test_page_shows_the_detectors_that_were_asked_for(
    show: Callable[..., Any], log: Path, which: str, marks: tuple[bool, bool]
) -> None:
    assert show(log, "--id", "run-1", "--detector", which, "--out", "page.html").code == 0
    page = Path("page.html").read_text("utf-8")
    assert (SENTENCE in page, "<svg" in page) == marks
    assert ("The locked rule: 2 of 8 turns collapsed" in page) == marks[1]
    assert ("Turns 7–8 collapsed: 2 of 8 judged turns" in page) == marks[1]
