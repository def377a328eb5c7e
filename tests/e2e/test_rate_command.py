"""`chimera rate` on logs, and `chimera audit` on its output."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

TALKS = {
    "loop": ["Well.", "Let me check it again.", "Let me check it again!", "let me check it again"],
    "free": ["The sea is calm.", "Bees dance.", "Iron rusts in salt."],
    "turns": ["hi", "Hello there."] * 3,
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "talks.jsonl"
    lines = [json.dumps({"id": name, "turns": turns}) for name, turns in TALKS.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_every_label_comes_with_its_turns(
    chimera: Callable[..., tuple[int, str, str]], log: Path
) -> None:
    code, shown, told = chimera("rate", log, "--json")
    ratings = {row["id"]: row for row in map(json.loads, shown.splitlines())}
    assert code == 0
    assert {name: row["label"] for name, row in ratings.items()} == {
        "loop": 1,
        "free": 0,
        "turns": 0,
    }
    assert ratings["loop"]["turns"] == [2, 3, 4]
    assert ratings["turns"]["noted"] == [{"pattern": "alternation", "turns": [1, 2, 3, 4, 5, 6]}]
    assert "1 labelled 1, 2 labelled 0" in told
    table = chimera("rate", log)[1]
    assert "T1 to T3 are the same text" in " ".join(table.split())
    assert table.splitlines()[0].split() == ["conversation", "judged", "label", "step", "reason"]
    assert table.splitlines()[1].split()[:3] == ["loop", "all", "1"]


def test_written_ratings_can_be_audited(
    chimera: Callable[..., tuple[int, str, str]], log: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ratings.csv"
    assert chimera("rate", log, "--out", path)[0] == 0
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    with path.open("a", encoding="utf-8", newline="") as file:
        for row in rows:
            csv.DictWriter(file, row).writerow(row | {"rater": "ann"})
    code, shown, _ = chimera("audit", path, "--json")
    result = json.loads(shown)
    assert (code, result["kappa"], result["raters"]) == (0, 1.0, ["rules", "ann"])


@pytest.mark.parametrize(
    "arguments", [("nowhere.jsonl",), ("--rubric", "nowhere.toml"), ("--out", "ratings.xml")]
)
def test_bad_input_exits_with_2(
    chimera: Callable[..., tuple[int, str, str]], log: Path, arguments: tuple[str, ...]
) -> None:
    paths = () if arguments == ("nowhere.jsonl",) else (log,)
    code, _, told = chimera("rate", *paths, *arguments)
    assert code == 2
    assert "Traceback" not in told
