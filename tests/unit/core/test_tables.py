"""Tables are read alike whatever their separator."""

import json
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.tables import open_table, read_rows

ROWS = [{"item": "a", "label": "1"}, {"item": "b; c", "label": "0"}]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_commas_semicolons_and_tabs_separate_alike(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f'item{separator}label\na{separator}1\n"b; c"{separator}0\n')
    assert [cells for _, cells in read_rows(path)] == ROWS


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_written_table_is_read_back_unchanged(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"table{ending}"
    with open_table(path, {"item": str, "label": str}) as write:
        for row in ROWS:
            write(row)
    assert [cells for _, cells in read_rows(path, ("item", "label"))] == ROWS


def test_line_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('item,label\n"two\nlines",1\n\nb,0\n')
    assert list(read_rows(path)) == [
        (3, {"item": "two\nlines", "label": "1"}),
        (5, {"item": "b", "label": "0"}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.csv", b"item,item\n1,2\n", "two columns are called 'item'"),
        ("t.csv", b"items,label\n1,2\n", "no column 'item' (is it 'items'?)"),
        ("t.csv", b"item,label\n1,2,3\n", "line 2: 3 cells under 2 column names"),
        ("t.csv", b"item,label\n\xff,2\n", "is not UTF-8 text"),
        ("t.csv", b'item,label\n"a,2\n', "not valid CSV"),
        ("t.jsonl", b'{"item": 1}\n', "line 1: there is no column 'label'"),
        ("t.jsonl", b"[1]\n", "line 1: not a JSON object"),
        ("t.jsonl", b"{\n", "line 1: not valid JSON"),
        ("t.parquet", b"no parquet", "can't be read as Parquet"),
        ("t.xlsx", b"", "unknown kind of table '.xlsx'"),
    ],
)
def test_bad_table_is_rejected_in_one_sentence(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        list(read_rows(path, ("item", "label")))
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        list(read_rows(tmp_path / "none.csv"))


def test_json_object_may_lack_optional_columns(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text(json.dumps({"item": "a"}) + "\n\n")
    assert [cells for _, cells in read_rows(path, ("item",))] == [{"item": "a"}]


def test_a_file_that_does_not_exist_is_not_an_unknown_kind_of_table(tmp_path):
    with pytest.raises(InputError, match=r"nowhere can't be read \(No such file"):
        list(read_rows(tmp_path / "nowhere"))
