"""Packets for people: blinded on export, checked on import."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.parts import validate
from chimeralab.rating.packets import (
    PAGE,
    SHEET,
    PacketKey,
    PacketRatings,
    export_packet,
    import_packet,
    lay_out_packet,
)
from chimeralab.rating.ratings import Item, Shuffler
from chimeralab.rating.rubric import BUILT_IN, load_rubric, lock_path, parse_rubric

RUBRIC = load_rubric()
ITEMS = [
    Item(
        f"HOMO_A/qwen/{n}", (f"I am Qwen number {n}.", "<script>alert(1)</script>", "Well.", "Bye")
    )
    for n in range(40)
]
BY_ID = {item.id: item for item in ITEMS}
PLAN: Any = {"shuffler": Shuffler("secret", "packet 3"), "names": ("Qwen", "HOMO_A")}


def export(folder: Path, items: Sequence[Item] = ITEMS, **changes: Any) -> PacketKey:
    return export_packet(folder, lay_out_packet(items, RUBRIC, **PLAN | changes), RUBRIC)


@pytest.fixture
def packet(tmp_path: Path) -> tuple[Path, PacketKey]:
    folder = tmp_path / "packet"
    return folder, export(folder)


def rows_of(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fill(path: Path, /, **cells: str) -> list[dict[str, str]]:
    """Fill every row of a sheet with the same cells."""
    rows = [row | cells for row in rows_of(path)]
    write(path, rows)
    return rows


def write(sheet: Path, rows: list[dict[str, str]]) -> None:
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def import_study_packet(packet: tuple[Path, PacketKey]) -> PacketRatings:
    folder, key = packet
    return import_packet(folder / SHEET, key, BY_ID, RUBRIC, "ann")


def refusal(packet: tuple[Path, PacketKey]) -> str:
    with pytest.raises(InputError) as caught:
        import_study_packet(packet)
    return str(caught.value)


def test_a_packet_reveals_neither_condition_nor_model(packet: tuple[Path, PacketKey]) -> None:
    folder, _ = packet
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8").lower()
        assert "qwen" not in text
        assert "homo_a" not in text


def test_a_packet_is_shuffled_and_repeats_some_items_far_apart(
    packet: tuple[Path, PacketKey],
) -> None:
    _, key = packet
    order = [entry.item for entry in key.entries]
    assert order[:40] != [item.id for item in ITEMS]
    assert sorted(set(order)) == sorted(BY_ID)
    twice = [entry.item for entry in key.entries if entry.duplicate]
    assert len(twice) == 3
    for item in twice:
        first, second = (n for n, other in enumerate(order) if other == item)
        assert second - first > 10


def test_import_reports_retest_agreement_of_duplicates(
    packet: tuple[Path, PacketKey],
) -> None:
    folder, key = packet
    rows = fill(folder / SHEET, label="1")
    twice = [entry for entry in key.entries if entry.duplicate]
    changed = {twice[0].sheet: "0", twice[1].sheet: ""}
    write(folder / SHEET, [row | {"label": changed.get(row["sheet"], "1")} for row in rows])
    _, again = import_study_packet(packet)
    assert again == {twice[0].item: False, twice[1].item: None, twice[2].item: True}


def test_texts_are_escaped_and_no_other_script_can_run(packet: tuple[Path, PacketKey]) -> None:
    page = (packet[0] / PAGE).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src 'none'" in page
    assert page.count("<script>") == 1


def test_the_page_contains_the_whole_rubric(packet: tuple[Path, PacketKey]) -> None:
    page = (packet[0] / PAGE).read_text(encoding="utf-8")
    for text in (*RUBRIC.donts, *RUBRIC.dos, *(step.question for step in RUBRIC.steps)):
        assert text.replace("'", "&#39;") in page


def test_the_same_secret_and_purpose_make_the_same_packet(tmp_path: Path) -> None:
    one, other = (export(tmp_path / name) for name in "ab")
    assert one == other
    others = Shuffler("secret", "packet 4"), Shuffler("another", "packet 3")
    for name, shuffler in zip("cd", others, strict=True):
        unlike = export(tmp_path / name, shuffler=shuffler)
        assert unlike.packet != one.packet
        assert [each.item for each in unlike.entries] != [each.item for each in one.entries]


def test_checksums_survive_a_spreadsheet_and_hide_duplicates(
    packet: tuple[Path, PacketKey],
) -> None:
    checks = [entry.check for entry in packet[1].entries]
    assert all(check.isalpha() for check in checks)
    assert len(set(checks)) == len(checks)


def test_a_filled_packet_is_imported_with_labels_turns_and_retest(
    packet: tuple[Path, PacketKey],
) -> None:
    fill(packet[0] / SHEET, label="1", turns="T0 - 2", reason="T0 to T2.")
    ratings, repeated = import_study_packet(packet)
    assert len(ratings) == 40
    assert {(r.rater, r.label, r.turns) for r in ratings} == {("ann", 1, (1, 2, 3))}
    assert list(repeated.values()) == [True] * 3


def test_a_blank_label_is_none_and_counted(packet: tuple[Path, PacketKey]) -> None:
    rows = fill(packet[0] / SHEET, label="0", reason="No loop.")
    first = next(n for n, entry in enumerate(packet[1].entries) if not entry.duplicate)
    rows[first]["label"] = ""
    write(packet[0] / SHEET, rows)
    assert [rating.label for rating in import_study_packet(packet)[0]].count(None) == 1


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"label": "2"}, "label '2'"),
        ({"label": "yes"}, "label 'yes'"),
        ({"label": ""}, "has no label"),
        ({"label": "1", "sheet": "p0000000-001"}, "is not part of packet"),
        ({"label": "1", "check": "abcdefabcdef"}, "was the text edited?"),
        ({"label": "1", "turns": "3-9"}, "write them like T4-T7"),
        ({"label": "1", "turns": "first three"}, "write them like T4-T7"),
    ],
)
def test_a_wrongly_filled_packet_is_rejected(
    packet: tuple[Path, PacketKey], cells: dict[str, str], message: str
) -> None:
    fill(packet[0] / SHEET, **cells)
    assert message in refusal(packet)


def test_missing_and_duplicate_rows_are_rejected(packet: tuple[Path, PacketKey]) -> None:
    rows = fill(packet[0] / SHEET, label="0")
    write(packet[0] / SHEET, rows[1:])
    assert "is missing" in refusal(packet)
    write(packet[0] / SHEET, [*rows, rows[0]])
    assert "occurs twice" in refusal(packet)


def test_an_edited_page_is_rejected(packet: tuple[Path, PacketKey]) -> None:
    fill(packet[0] / SHEET, label="0")
    page = packet[0] / PAGE
    page.write_text(page.read_text(encoding="utf-8").replace("Well.", "Well!"), encoding="utf-8")
    assert "was edited" in refusal(packet)


def test_an_item_whose_text_has_changed_is_rejected(packet: tuple[Path, PacketKey]) -> None:
    folder, key = packet
    fill(folder / SHEET, label="0")
    changed = BY_ID | {ITEMS[5].id: Item(ITEMS[5].id, ("Other words.",))}
    with pytest.raises(InputError, match="has changed since the packet was made"):
        import_packet(folder / SHEET, key, changed, RUBRIC, "ann")
    with pytest.raises(InputError, match="which is not in this study"):
        import_packet(folder / SHEET, key, {}, RUBRIC, "ann")


def test_another_rubric_is_rejected(packet: tuple[Path, PacketKey]) -> None:
    folder, key = packet
    other = parse_rubric(BUILT_IN.read_bytes() + b"\n", "other")
    with pytest.raises(InputError, match="made with another rubric"):
        import_packet(folder / SHEET, key, BY_ID, other, "ann")
    assert lock_path(BUILT_IN).exists()


def test_a_key_survives_serialisation(packet: tuple[Path, PacketKey]) -> None:
    assert validate(PacketKey, json.loads(json.dumps(packet[1].as_dict()))) == packet[1]


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty"):
        export(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_packet_can_have_one_item_or_odd_text(tmp_path: Path) -> None:
    key = export(tmp_path / "p", [Item("x", ("\ud800 \x00",))])
    assert len(key.entries) == 1


def test_bidirectional_control_characters_are_shown_by_name(tmp_path: Path) -> None:
    turning = "\u202e\u202d\u2066\u2067\u2069\u200f\u061c"
    export(tmp_path / "p", [Item("x", (f"safe{turning}elif", "b", "c"))])
    page = (tmp_path / "p" / PAGE).read_text(encoding="utf-8")
    assert not set(turning) & set(page)
    assert "safe[U+202E][U+202D]" in page


def test_packet_without_its_sheet_is_completed(packet: tuple[Path, PacketKey]) -> None:
    folder, key = packet
    sheet = (folder / SHEET).read_bytes()
    (folder / SHEET).unlink()
    assert export(folder) == key
    assert (folder / SHEET).read_bytes() == sheet
    with pytest.raises(InputError, match="is not empty"):
        export(folder)


def test_key_is_kept_before_a_packet_exists(tmp_path: Path) -> None:
    def fail(key: PacketKey) -> None:
        assert not (tmp_path / "p").exists()
        raise InputError("the disk is full")

    with pytest.raises(InputError, match="full"):
        export_packet(tmp_path / "p", lay_out_packet(ITEMS, RUBRIC, **PLAN), RUBRIC, fail)
    assert not (tmp_path / "p").exists()
