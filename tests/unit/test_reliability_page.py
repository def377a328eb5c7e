"""The table of the reliability page is what `make campaign` writes from its records."""

from pathlib import Path

import pytest

from tests.campaign import (
    BEGIN,
    END,
    GROUPS,
    PARTLY,
    PARTS,
    Records,
    page_block,
    read_page,
    share,
    write_page,
)
from tests.tamper import ATTACKS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
WANTED = share(list(PARTS), None)


@pytest.fixture
def block(tmp_path: Path) -> str:
    """The table of a campaign in which one case failed."""
    records = Records(tmp_path, "0123abc", "source")
    answer = {"faults": [], "seconds": 60.0, "slowest": 0.5, "memory": 200 << 20}
    for name, part in PARTS.items():
        for _, first, count in list(records.left(name, part.wanted)):
            records.add(name, first, count, answer)
    failed = [{"case": 7, "what": "KeyError", "trace": ""}]
    records.add("plans", 0, PARTS["plans"].batch, {**answer, "faults": failed})
    return page_block(records, WANTED)


def test_page_has_the_form_that_the_command_writes() -> None:
    read_page(PAGE.read_text(encoding="utf-8"))


def test_table_counts_what_is_recorded(block: str) -> None:
    found = read_page(block)
    assert found is not None
    assert {name: cases for name, (cases, _) in found.items()} == WANTED
    assert {name: faults for name, (_, faults) in found.items() if faults} == {"plans": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| 0123abc |", "| main |"),
        ("Complete. ", ""),
        ("Complete. ", f"{PARTLY} "),
        ("| faults |", "| found |"),
        ("| kills | kills of every command", "| kills | some kills of every command"),
        ("| 0.5 s |", "| quick |"),
        ("| 1,000 | 0 |", "| many | 0 |"),
        ("| 1,000 | 0 |", "| 999 | 0 |"),
        ("| 1,000 | 1,000 | 0 |", "| 999 | 1,000 | 0 |"),
    ],
)
def test_table_that_was_edited_is_rejected(block: str, old: str, new: str) -> None:
    assert old in block
    with pytest.raises(ValueError, match=r".+"):
        read_page(block.replace(old, new))


def test_table_without_a_part_is_rejected(block: str) -> None:
    lines = [line for line in block.splitlines() if not line.startswith("| damage |")]
    with pytest.raises(ValueError, match="parts"):
        read_page("\n".join(lines))


def test_table_of_several_commits_counts_the_last_of_each_batch(tmp_path: Path) -> None:
    answer = {"faults": [], "seconds": 60.0, "slowest": 0.5, "memory": 200 << 20}
    failed = {**answer, "faults": [{"case": 7, "what": "KeyError", "trace": ""}]}
    for commit, source, found in (("0123abc", "then", failed), ("4567def", "now", answer)):
        records = Records(tmp_path, commit, source)
        assert records.all == []
        records.add("plans", 0, 1_000, found)
    Records(tmp_path, "0123abc", "then").add("plans", 1_000, 1_000, answer)
    block = page_block(Records(tmp_path, "", None), WANTED)
    assert block.splitlines()[1].startswith(PARTLY)
    assert "| 25,000 | 2,000 | 0 | 0.5 s | 200 MB | 4567def, 0123abc |" in block
    assert (read_page(block) or {})["plans"] == (2_000, 0)


def test_part_of_which_less_is_recorded_keeps_its_row(tmp_path: Path, block: str) -> None:
    answer = {"faults": [], "seconds": 60.0, "slowest": 0.5, "memory": 200 << 20}
    records = Records(tmp_path / "later", "4567def", "now")
    records.path.parent.mkdir()
    records.add("locks", 0, 100, answer)
    records.add("guard", 0, PARTS["guard"].wanted, answer)
    found = page_block(records, WANTED, block)
    rows = {line.split(" | ")[0]: line for line in block.splitlines()}
    changed = {line for line in found.splitlines()[3:-1] if line != rows[line.split(" | ")[0]]}
    assert {line.split(" | ")[0] for line in changed} == {"| guard"}
    assert "4567def" in changed.pop()


def test_table_takes_its_place_on_the_page(tmp_path: Path, block: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", encoding="utf-8")
    write_page(page, block)
    assert page.read_text(encoding="utf-8") == f"Before.\n\n{block}\n\nAfter.\n"


def test_fuzzing_is_a_million_inputs_and_kills_are_a_thousand() -> None:
    assert len(ATTACKS) >= 100
    assert sum(WANTED[name] for name in GROUPS["fuzz"]) == 1_000_000
    studies = {name: count for name, count in WANTED.items() if name not in GROUPS["fuzz"]}
    assert studies == {"kills": 1_000, "damage": 100, "tamper": len(ATTACKS)}
