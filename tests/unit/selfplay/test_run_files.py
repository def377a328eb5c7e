"""Tables of runs are read exactly, or rejected with file, line and column."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chimeralab.core.errors import InputError
from chimeralab.selfplay.runs import read_runs

WriteCsv = Callable[..., Path]
GOOD = ("A,s1,0,40,6,12", "A,s2,0,40,0,", "B,s1,0,40,36,5", "B,s2,0,40,1,40")


def test_blank_first_collapse_is_a_run_that_never_collapsed(write_csv: WriteCsv) -> None:
    runs = read_runs(write_csv(*GOOD))
    assert [row.first_collapse_turn for row in runs.rows] == [12, None, 5, 40]
    assert runs.durations.observed.tolist() == [True, False, True, True]


def test_other_columns_and_their_order_do_not_matter(write_csv: WriteCsv) -> None:
    header = "note,first_collapse_turn,seed_id,condition,total_turns,repeat_index,collapsed_turns"
    runs = read_runs(write_csv('"x,\ny",12,s1,A,40,0,6', header=header))
    assert runs.rows[0].first_collapse_turn == 12


def test_byte_order_mark_and_whole_floats_of_spreadsheets_are_accepted(
    tmp_path: Path, write_csv: WriteCsv
) -> None:
    path = write_csv("A,s1,0,40.0,6.0,12.0", "", "A,s2,0,40,0,")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [row.total_turns for row in read_runs(path).rows] == [40, 40]


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ("A,s3,0,40,6,41", "column first_collapse_turn is 41; the run has turns 1 to 40"),
        ("A,s3,0,40,6,0", "column first_collapse_turn is 0"),
        ("A,s3,0,40,41,1", "column collapsed_turns is 41; the run has 40 turns"),
        ("A,s3,0,40,-1,", "column collapsed_turns is -1"),
        ("A,s3,0,40,3,39", "from first_collapse_turn 39 on there are only 2 turns"),
        ("A,s3,0,40,3,", "column first_collapse_turn is blank, yet 3 turns collapsed"),
        ("A,s3,0,40,0,7", "column first_collapse_turn is 7, yet collapsed_turns is 0"),
        ("A,s3,0,0,0,", "column total_turns is 0"),
        ("A,s3,0,40,nan,7", "column collapsed_turns is 'nan'"),
        ("A,s3,0,40,,7", "column collapsed_turns is blank; give 0"),
        ("A,s3,0,40,6,NaN", "column first_collapse_turn is 'NaN'; leave the cell blank"),
        ("A,s3,0,inf,6,7", "column total_turns is 'inf'"),
        ("A,s3,0,40.5,6,7", "column total_turns is '40.5'"),
        ("A,s3,one,40,6,7", "column repeat_index is 'one'"),
        (",s3,0,40,6,7", "column condition must be a name, not blank"),
        ("A, ,0,40,6,7", "column seed_id must be a name, not blank"),
        ("A,s3,0,40,6", "column first_collapse_turn is blank, yet 6 turns collapsed"),
        ("A,s3,0,40,6,7,8", "7 cells under 6 column names"),
        ("A,s1,0,40,0,", "condition 'A', seed_id 's1', repeat_index 0 is in line 2 already"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_column(
    write_csv: WriteCsv, row: str, place: str
) -> None:
    path = write_csv(*GOOD, row)
    with pytest.raises(InputError, match="line 6") as caught:
        read_runs(path)
    assert str(path) in str(caught.value)
    assert place in str(caught.value)


def test_a_missing_column_is_named_with_the_closest_one(write_csv: WriteCsv) -> None:
    path = write_csv(header="condition,seed,repeat_index,total_turns,collapsed_turns,first")
    with pytest.raises(InputError, match=r"no column 'seed_id' \(is it 'seed'\?\)"):
        read_runs(path)


def test_duplicate_column_is_rejected(write_csv: WriteCsv) -> None:
    with pytest.raises(InputError, match="two columns are called 'condition'"):
        read_runs(write_csv(header="condition,condition"))


def test_prompt_in_two_buckets_is_rejected(write_csv: WriteCsv) -> None:
    header = "condition,seed_id,repeat_index,total_turns,collapsed_turns,first_collapse_turn"
    path = write_csv("A,s1,0,40,0,,x", "B,s1,0,40,0,,y", header=header + ",seed_bucket")
    with pytest.raises(InputError, match=r"'s1' is in two buckets: x \(line 2\) and y \(line 3\)"):
        read_runs(path)


def test_turns_at_risk_can_be_given_and_must_fit(write_csv: WriteCsv) -> None:
    header = "condition,seed_id,repeat_index,total_turns,collapsed_turns,first_collapse_turn"
    header += ",at_risk_turns"
    assert read_runs(write_csv("A,s1,0,40,6,12,38", header=header)).at_risk.tolist() == [38]
    with pytest.raises(InputError, match="column at_risk_turns is 41"):
        read_runs(write_csv("A,s1,0,40,6,12,41", header=header))


@pytest.mark.parametrize("text", ["", "condition,seed_id\n", '"', "a\x00b"])
def test_file_that_is_not_a_table_is_rejected_with_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"runs\.csv"):
        read_runs(path)


def test_table_without_runs_is_rejected(write_csv: WriteCsv) -> None:
    with pytest.raises(InputError, match="no run to analyse"):
        read_runs(write_csv())


def test_bytes_that_are_not_text_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_runs(path)


def test_unknown_suffix_lists_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "runs.xlsx"
    path.touch()
    with pytest.raises(InputError, match=r"'\.xlsx'; known: \.csv, \.tsv, \.jsonl, \.parquet"):
        read_runs(path)


def test_json_lines_and_parquet_hold_the_same_runs(write_csv: WriteCsv, tmp_path: Path) -> None:
    runs = read_runs(write_csv(*GOOD))
    rows = [{key: row.as_dict()[key] for key in COLUMNS_WRITTEN} for row in runs.rows]
    lines, table = tmp_path / "runs.jsonl", tmp_path / "runs.parquet"
    lines.write_text("\n".join(map(json.dumps, rows)) + "\n")
    pq.write_table(pa.Table.from_pylist(rows), table)
    assert read_runs(lines).rows == read_runs(table).rows == runs.rows


COLUMNS_WRITTEN = (
    "condition",
    "seed_id",
    "repeat_index",
    "total_turns",
    "collapsed_turns",
    "first_collapse_turn",
)


@pytest.mark.parametrize("text", ["[1]", "{", '{"condition": "A"}'])
def test_bad_json_lines_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(InputError, match="line 1"):
        read_runs(path)


def test_broken_parquet_file_is_rejected_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="can't be read as Parquet"):
        read_runs(path)
