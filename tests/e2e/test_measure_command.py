"""`chimera measure` as a user runs it: the worked examples, the formats, and what can go wrong."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CONFIDENCE = (0.9, 0.8, 0.6, 0.7, 0.3)
Rows = list[dict[str, Any]]
RECALL: Rows = [
    {"session": "s", "trial": n, "correct": c, "confidence": conf, "weight": w}
    for n, (c, conf, w) in enumerate(
        zip((1, 1, 0, 1, 0), CONFIDENCE, (1, 0.5, 1, 0.25, 0.75), strict=True), start=1
    )
]
NOVEL: Rows = [
    {"session": "s", "trial": n, "correct": c, "confidence": conf, "novel": True}
    for n, (c, conf) in enumerate(zip((1, 0, 1, 1, 0), CONFIDENCE, strict=True), start=1)
]
FRAMED: Rows = [
    {
        "session": f"{frame} run", "trial": n, "bias": bias, "response": answers[n - 1],
        "truth": (1, 0, 1, 1, 1)[n - 1], "pair": f"p{n}", "frame": frame,
    }
    for frame, bias, answers in (("neutral", 0, (1, 0, 1, 1, 0)), ("biased", 1, (1, 0, 0, 1, 1)))
    for n in range(1, 6)
]  # fmt: skip


@pytest.fixture
def measure(chimera: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Writes rows to a file and runs the command on it."""

    def run(rows: Rows | Path, *options: object, ending: str = "jsonl") -> Any:
        path = rows if isinstance(rows, Path) else write(tmp_path / f"trials.{ending}", rows)
        return chimera("measure", path, *options)

    return run


def write(path: Path, rows: Rows) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{n: r.get(n) for n in names} for r in rows]), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_worked_examples_in_every_format(measure: Callable[..., Any], ending: str) -> None:
    mci = measure(RECALL, "--json", ending=ending).json["mci"]
    found = [mci[name] for name in ("value", "rf", "ci", "cb", "ceiling")]
    assert found == pytest.approx([0.585, 0.6, 0.8, 0.35, 0.91])
    gfq = measure(NOVEL, "--json", ending=ending).json["gfq"]
    assert [gfq[name] for name in ("value", "ta", "cta")] == pytest.approx([0.536, 0.6, 0.44])
    framed = measure(FRAMED, "--json", ending=ending).json
    dfs = framed["dfs"]
    assert [dfs[name] for name in ("value", "fi", "br")] == pytest.approx([0.75, 0.6, 0.9])
    assert framed["companions"]["br_biased_only"] == pytest.approx(0.8)


def test_metric_without_its_columns_is_null_with_a_reason(measure: Callable[..., Any]) -> None:
    ran = measure([{"session": "s", "trial": 1}], "--json")
    assert ran.code == 0
    assert [ran.json[name]["value"] for name in ("mci", "gfq", "dfs")] == [None, None, None]
    assert {"mci", "gfq", "dfs", "mci.rf", "ece"} <= set(ran.json["undefined"])
    assert "`weight`" in ran.json["undefined"]["mci.cb"]


def test_intervals_come_from_clusters_of_scenarios(measure: Callable[..., Any]) -> None:
    rows = [
        row | {"session": f"s{k}", "scenario": f"c{k // 2}", "correct": (k + row["trial"]) % 3 > 0}
        for k in range(8)
        for row in RECALL
    ]
    first = measure(rows, "--json").json
    low, high = first["mci"]["interval"]
    assert low < first["mci"]["value"] < high
    assert first["clusters"]["sessions"] == 4
    assert first["mci"]["part_intervals"]["ci"] == pytest.approx([0.8, 0.8])
    assert first == measure(rows, "--json").json
    few = [measure(rows, "--json", "--resamples", 7, "--seed", n).json["mci"] for n in (1, 2)]
    assert few[0]["interval"] != few[1]["interval"]


def test_one_cluster_has_no_interval_and_says_so(measure: Callable[..., Any]) -> None:
    found = measure(RECALL, "--json").json
    assert found["mci"]["interval"] is None
    assert "a single cluster" in found["undefined"]["mci.interval"]


def test_arms_are_measured_separately(measure: Callable[..., Any]) -> None:
    rows = [row | {"arm": arm} for arm in ("control", "sham") for row in RECALL]
    rows += [row | {"arm": "control"} for row in FRAMED]
    found = measure(rows, "--by", "arm", "--json").json
    assert set(found["groups"]) == {"control", "sham"}
    assert found["groups"]["sham"]["mci"]["value"] == pytest.approx(0.585)
    assert found["groups"]["sham"]["dfs"]["value"] is None
    assert found["groups"]["control"]["dfs"]["value"] == pytest.approx(0.75)
    shown = measure(rows, "--by", "arm").out
    assert "control" in shown
    assert "0.75" in shown


def test_same_pair_names_in_two_arms_are_two_pairs(measure: Callable[..., Any]) -> None:
    rows = [row | {"arm": arm} for arm in ("control", "sham") for row in FRAMED]
    assert measure(rows, "--json").json["dfs"]["pairs"] == 10


def test_grouping_by_a_missing_column_is_rejected(measure: Callable[..., Any]) -> None:
    ran = measure(RECALL, "--by", "arm")
    assert ran.code == 2
    assert "'arm'" in ran.err


def test_table_has_plain_names(measure: Callable[..., Any]) -> None:
    ran = measure([*RECALL, *FRAMED])
    assert ran.code == 0
    assert "0.585" in ran.out
    assert "60.0\xa0% of the trials" in ran.out
    assert "pairs right only when neutral" in ran.out
    assert "undefined: ta is undefined" in " ".join(ran.out.split())
    assert "correct: stated in 5 of 15 trials" in ran.out


def test_missing_confidence_is_skipped_and_counted(measure: Callable[..., Any]) -> None:
    rows = [dict(row) for row in RECALL]
    rows[2]["confidence"] = None
    found = measure(rows, "--json").json
    assert found["mci"]["ci"] == pytest.approx(1 - (0.1 + 0.1 + 0.4) / 3)
    assert found["coverage"] == {"correct": 5, "confidence": 4, "weight": 5}


def test_numbers_need_a_range(measure: Callable[..., Any]) -> None:
    rows = [row | {"response": 10 * row["response"], "truth": 10} for row in FRAMED]
    refused = measure(rows, "--json")
    assert refused.code == 2
    assert "--range LOW HIGH" in refused.err
    assert measure(rows, "--range", 0, 20, "--json").json["dfs"]["fi"] == pytest.approx(0.8)
    assert measure(rows, "--range", -10, 10, "--json").json["dfs"]["fi"] == pytest.approx(0.8)


def test_free_text_columns_may_contain_anything(measure: Callable[..., Any]) -> None:
    rows = [row | {"response": text} for row, text in zip(RECALL, "4 five 6 7 8".split())]  # noqa: B905
    assert measure(rows, "--json", ending="csv").json["mci"]["value"] == pytest.approx(0.585)


def test_unknown_columns_are_named(measure: Callable[..., Any]) -> None:
    ran = measure([row | {"confidance": 1} for row in RECALL])
    assert "confidance" in ran.err


def changed(rows: Rows, index: int, **cells: object) -> Rows:
    return [row | cells if n == index else dict(row) for n, row in enumerate(rows)]


BAD_ROWS: dict[str, tuple[Rows, list[str]]] = {
    "confidence above 1": (changed(RECALL, 2, confidence=1.2), ["line 3", "confidence", "1.2"]),
    "weight below 0": (changed(RECALL, 1, weight=-0.5), ["line 2", "weight"]),
    "unclear flag": (changed(RECALL, 4, correct="maybe"), ["line 5", "correct", "'maybe'"]),
    "unknown frame": (changed(FRAMED, 6, frame="slanted"), ["line 7", "'slanted'", "neutral"]),
    "third member": (
        [*FRAMED, FRAMED[0] | {"trial": 9}],
        ["line 11", "third member of pair 'p1'", "see line 1 and 6", "scenario"],
    ),
    "twins": (
        changed(FRAMED, 5, frame="neutral"),
        ["line 6", "neutral half of pair 'p1'", "see line 1"],
    ),
    "mixed answers": (changed(FRAMED, 3, response="yes"), ["line 4", "'yes'", "numbers"]),
    "mixed truth": (
        [row | {"response": "yes"} for row in FRAMED],
        ["line 1", "truth", "categories"],
    ),
    "no session": ([{"trial": 1}], ["line 1", "session"]),
    "trial is not a number": ([{"session": "s", "trial": "first"}], ["line 1", "trial", "'first'"]),
    "infinite": (changed(RECALL, 0, confidence=float("inf")), ["line 1", "confidence"]),
    "huge": (changed(RECALL, 3, trial=10**400), ["line 4", "trial"]),
    "nested": (changed(RECALL, 0, session=["s"]), ["line 1", "session"]),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_named_by_their_line(measure: Callable[..., Any], case: str) -> None:
    rows, words = BAD_ROWS[case]
    ran = measure(rows, "--json")
    assert ran.code == 2
    assert ran.out == ""
    for word in ("trials.jsonl", *words):
        assert word in ran.err


def test_lines_of_csv_count_the_header(measure: Callable[..., Any]) -> None:
    ran = measure(changed(RECALL, 0, confidence=1.2), ending="csv")
    assert ran.code == 2
    assert "line 2" in ran.err


def test_category_among_numbers_is_named_in_csv_too(measure: Callable[..., Any]) -> None:
    ran = measure(changed(FRAMED, 3, response="yes"), ending="csv")
    assert ran.code == 2
    assert "line 5" in ran.err


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_mixed_numbers_and_words_are_reported_first(
    measure: Callable[..., Any], ending: str
) -> None:
    rows = changed(changed(FRAMED, 0, response=0.7), 3, response="yes")
    ran = measure(rows, ending=ending)
    assert ran.code == 2
    assert "'yes' is mixed with answers that are numbers" in ran.err
    assert "--range" not in ran.err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_column_is_named_with_the_closest_match(
    measure: Callable[..., Any], ending: str
) -> None:
    ran = measure([{"sessionid": "s", "trial": 1, "correct": 1}], ending=ending)
    assert ran.code == 2
    assert "no column 'session' (is it 'sessionid'?); needed: session, trial" in ran.err


def test_one_cluster_is_said_to_have_no_interval(measure: Callable[..., Any]) -> None:
    shown = measure(RECALL).out
    assert "there is only one cluster" in shown
    assert "too narrow" not in shown


def test_spreadsheets_may_write_semicolons(measure: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    write(path, RECALL)
    path.write_text(path.read_text().replace(",", ";"))
    assert measure(path, "--json").json["mci"]["value"] == pytest.approx(0.585)


BAD_FILES = {
    "trials.jsonl": (b'{"session": "s", "trial": 1}\n{broken\n', "line 2"),
    "list.jsonl": (b"[1, 2]\n", "not a JSON object"),
    "empty.jsonl": (b"", "no trial"),
    "latin.jsonl": (b'{"session": "caf\xe9"}\n', "UTF-8"),
    "latin.csv": (b"session,trial\ncaf\xe9,1\n", "UTF-8"),
    "wide.csv": (b"session,trial\ns,1,2\n", "line 2"),
    "twice.csv": (b"session,trial,correct,correct\ns,1,0,1\n", "two columns are called 'correct'"),
    "header.csv": (b"session,trial\n", "no trial"),
    "text.parquet": (b"session,trial\n", "Parquet"),
    "trials.xlsx": (b"", "known: .csv, .tsv, .jsonl, .parquet"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_unreadable_files_are_named_with_the_reason(
    measure: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    content, words = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    ran = measure(tmp_path / name, "--json")
    assert ran.code == 2
    assert name in ran.err
    assert words in ran.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mci-weights", 0.4, 0.3, 0.4], "mci weights 0.4 0.3 0.4: they must sum to 1, not 1.1"),
        (["--gfq-weights", 1.5, -0.5], "gfq weights 1.5 -0.5: each must be between 0 and 1"),
        (["--range", 3, 3], "--range 3 3"),
        (["--range", "nan", 3], "--range nan 3"),
        (["--range", 0, "inf"], "--range 0 inf: both limits must be finite"),
        (["--by", "colour"], "colour"),
    ],
)
def test_impossible_options_are_rejected(
    measure: Callable[..., Any], options: list[object], words: str
) -> None:
    ran = measure(RECALL, *options)
    assert ran.code == 2
    assert words in ran.err


def test_missing_file_is_named(measure: Callable[..., Any], tmp_path: Path) -> None:
    ran = measure(tmp_path / "nowhere.jsonl")
    assert ran.code == 2
    assert "nowhere.jsonl" in ran.err


def test_names_in_a_log_cannot_control_the_terminal(measure: Callable[..., Any]) -> None:
    rows = [row | {"arm": "a\x1b[2Jb", "\x1b[31m": 1} for row in RECALL]
    ran = measure(rows, "--by", "arm")
    assert "\x1b[2J" not in ran.out
    assert "\x1b[31m" not in ran.err


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_answers_are_judged_by_the_scorer_where_the_log_does_not(measure, ending):
    answers = [
        ("The capital is Paris.", "Paris", True),
        ("It is not Paris.", "Paris", False),
        ("Lutetia, of old.", ["Paris", "Lutetia"], True),
        ("about 3.1", {"number": 3.14, "tolerance": 0.1}, True),
        ("a red one", {"pattern": "blue|green"}, False),
    ]
    rows: Rows = [
        {"session": f"s{n}", "trial": 1, "response": said, "truth": truth}
        for n, (said, truth, _) in enumerate(answers)
    ]
    if ending == "csv":
        rows = [{**row, "truth": json.dumps(row["truth"])} for row in rows]
        rows = [{**row, "truth": row["truth"].strip('"')} for row in rows]
    found = measure(rows, "--json", ending=ending).json
    assert found["mci"]["rf"] == pytest.approx(3 / 5)
    assert "compared with `truth`" in found["notes"][0]
    assert "2 right by what they name" in found["notes"][0]
    shown = measure(rows, ending=ending)
    assert "compared with `truth`" in shown.out


def test_log_that_says_what_is_correct_is_believed(measure):
    rows = [{"session": "s", "trial": 1, "response": "Lyon", "truth": "Paris", "correct": True}]
    rows += [{"session": "s", "trial": 2, "response": "Paris", "truth": "Paris"}]
    found = measure(rows, "--json").json
    assert found["mci"]["rf"] == 1
    assert found["coverage"]["correct"] == 1


def test_truth_that_cannot_be_read_is_named_with_its_line(measure):
    rows = [{"session": "s", "trial": 1, "response": "x", "truth": {"pattern": "("}}]
    refused = measure(rows)
    assert refused.code == 2
    assert "trials.jsonl, line 1" in refused.err
    assert "pattern of a truth" in refused.err
