"""Compressed, transcoded, truncated, empty and huge files, and files that are not logs."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Trajectory
from chimeralab.readers import streams
from tests import zstd

TALKS = [{"id": f"t{n}", "turns": ["Hi.", "Hello."]} for n in range(3)]
LINES = "".join(json.dumps(talk) + "\n" for talk in TALKS).encode()
IDS = ["t0", "t1", "t2"]


def ids(log: Path | str, **options: Any) -> list[str]:
    return [trajectory.id for trajectory in readers.read(log, **options)]


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES.rstrip(b"\n"),
        LINES.replace(b"\n", b"\r\n"),
        LINES.replace(b"\n", b"\n\n  \n"),
        b"\n\n" + LINES,
        b"\xef\xbb\xbf" + LINES,
        LINES.decode().encode("utf-16"),
        LINES.decode().encode("utf-16-be").join([b"\xfe\xff", b""]),
        json.dumps(TALKS).encode(),
        json.dumps(TALKS, indent=2).encode(),
        b"\xef\xbb\xbf" + json.dumps(TALKS, indent=2).encode(),
        "\n".join(json.dumps(talk, indent=2) for talk in TALKS).encode(),
        b"[" + b"\n,".join(json.dumps(talk).encode() for talk in TALKS) + b"\n]\n",
        b"[\n" + b",\n".join(json.dumps(talk).encode() for talk in TALKS) + b"\n]\n",
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_log_reads_the_same_in_any_encoding_and_compression(write, content, pack):
    assert ids(write(pack(content), name="log")) == IDS


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_multi_member_compressed_files_are_read_to_the_end(write, pack):
    assert ids(write(pack(LINES[:40]) + pack(LINES[40:]))) == IDS


def test_formats_may_change_from_line_to_line(write):
    log = write(
        {"turns": ["Hi."]},
        {"messages": [{"role": "user", "content": "Hi."}]},
        [{"role": "user", "content": "Hi."}],
        {"conversations": [{"from": "gpt", "value": "Hi."}]},
        {"type": "user", "uuid": "1", "parentUuid": None, "message": {"content": "Hi."}},
    )
    assert len(ids(log)) == 5


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Feed bytes through an unseekable standard input that returns a few bytes at a time."""

    class Pipe(io.RawIOBase):
        def __init__(self, content: bytes) -> None:
            self._content = io.BytesIO(content)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = self._content.read(min(3, len(buffer)))
            buffer[: len(piece)] = piece
            return len(piece)

    def piped(content: bytes) -> None:
        stream = io.BufferedReader(Pipe(content))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))

    return piped


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_standard_input_is_read_through_a_pipe(piped, pack):
    piped(pack(LINES * 50))
    assert ids("-") == IDS * 50


def test_standard_input_names_itself(piped):
    piped(b'{"turns": ["Hi."]}\n{"turns": 5}')
    reading = readers.read("-")
    assert next(reading).id == "stdin#1"
    with pytest.raises(LogError, match=r"^standard input, line 2: turns is a number"):
        next(reading)


@pytest.mark.parametrize("content", [LINES, json.dumps(TALKS, indent=1).encode()])
def test_a_disk_that_fails_is_an_error_with_a_reason(monkeypatch, content):
    class FailingDisk(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if self.is_worn_out:
                raise OSError(5, "Input/output error")
            self.is_worn_out = True
            buffer[:5000] = (content * 90)[:5000]
            return 5000

        is_worn_out = False

    stream = io.BufferedReader(FailingDisk())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    with pytest.raises(LogError, match="Input/output error"):
        ids("-")


def test_an_unknown_format_names_the_known_ones(write):
    with pytest.raises(InputError, match=r"unknown format 'chatml'.*; known: .*atif, .*openai, "):
        readers.read(write(LINES), format="chatml")


def test_a_forced_format_overrides_what_the_line_looks_like(write):
    both = {"turns": ["Hi."], "messages": [{"role": "user", "content": "Ho."}]}
    log = write(both)
    assert next(readers.read(log)).turns[0].text == "Hi."
    assert next(readers.read(log, format="openai")).turns[0].text == "Ho."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (gzip.compress(b""), "empty"),
        (b"\n \n", "has no conversations"),
        (b"[]", "not a conversation in a known format: it is a list"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "not a text log"),
        (b"{}", "not a conversation in a known format: its fields are none;"),
        (b'{"a": 1}', "not a conversation in a known format: its fields are 'a';"),
        (b"5", "not a conversation in a known format: it is a number"),
        (b"hello there", "a text in no known format (`chimera formats` lists them)"),
        (b"# Notes\n\nSome words.\n" * 600, "a text in no known format"),
        (b"[12] Some words of a log.\n" * 1799, "a text in no known format"),
        (b"{% if x %}\nSome words.\n" * 900, "a text in no known format"),
        (b'{"turns": ["a", "b', "the JSON is truncated at column 17"),
        (b'{"turns": ["a", ', "the JSON is truncated at column 16"),
        (b'{"turns": ["a" "b"]}', "not valid JSON at column 16"),
        (b'{"turns": ["a\xff"]}', "not UTF-8 text (byte 0xff at offset 13)"),
        (b'{"turns": ["a"], "n": ' + b"[" * 100_000, "the JSON is nested too deeply"),
        (b'{"turns": ["a"], "n": ' + b"9" * 10_000 + b"}", "an integer has too many"),
        (b'{"turns": ["a"], "n": ' + b"[" * 90 + b"]" * 90 + b"}", "n is nested too deeply"),
        (b"\xff\xfea", "not UTF-16 text"),
        (gzip.compress(LINES)[:-9], "the gzip data is truncated"),
        (zstd.compress(LINES)[:-9], "the zstd data is truncated"),
        (gzip.compress(LINES)[:20] + b"\0" * 40, "the gzip data is damaged"),
        (zstd.compress(LINES)[:6] + b"\xff" * 40, "the zstd data is damaged"),
        (b"PK\x03\x04 and no archive", "the zip archive is damaged or truncated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_file_that_is_not_a_log_gets_a_plain_reason(reason, content, expected):
    assert reason(content).startswith(expected)


def test_truncated_json_names_line_and_column(write):
    log = write(b'{\n  "id": "a",\n  "turns": ["Hi.", \n')
    with pytest.raises(LogError, match=r"log\.jsonl, line 3: the JSON is truncated at column 19 "):
        ids(log)


def test_folder_is_not_a_log(tmp_path):
    with pytest.raises(LogError, match="can't be opened"):
        ids(tmp_path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(LogError, match="can't be opened: No such file"):
        ids(tmp_path / "nowhere.jsonl")


def test_the_first_bad_line_stops_the_reading(write):
    reading = readers.read(write(b'{"turns": ["Hi."]}\n{"turns": ["Ho."]}\nnonsense\n'))
    assert [next(reading).id, next(reading).id] == ["log#1", "log#2"]
    with pytest.raises(LogError, match="line 3: not valid JSON"):
        next(reading)


def test_bad_lines_can_be_skipped_and_counted(write):
    heard: list[LogError] = []
    log = write(LINES.replace(b"\n", b"\nnonsense\n", 2) + b'{"turns": []}\n')
    assert ids(log, on_bad=heard.append) == IDS
    assert [(error.line, error.reason.split(" ")[0]) for error in heard] == [
        (2, "not"),
        (4, "not"),
        (6, "no"),
    ]


def test_a_broken_first_line_leaves_the_others_readable(write):
    heard: list[LogError] = []
    assert ids(write(b'{"turns": ["a\n' + LINES), on_bad=heard.append) == IDS
    assert [error.line for error in heard] == [1]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_values_before_an_error_are_kept(write, pack):
    heard: list[LogError] = []
    many = [json.dumps({"id": f"{n}", "turns": [f"{n * n}"]}) for n in range(10_000)]
    cut = pack("\n".join(many).encode())[:-500]
    found = ids(write(cut), on_bad=heard.append)
    assert 5_000 < len(found) < 10_000
    assert [error.line for error in heard] == [len(found) + 1]


def test_conversations_of_a_list_are_counted(write):
    heard: list[LogError] = []
    log = write(json.dumps([{"turns": ["Hi."]}, {"turns": 5}, {"turns": ["Ho."]}]).encode())
    found = list(readers.read(log, on_bad=heard.append))
    assert [one.id for one in found] == ["log#1", "log#3"]
    assert found[1].source == f"{log}:1 (conversation 3)"
    assert heard[0].reason == "conversation 2: turns is a number, not a list"


def test_too_long_line_is_rejected_without_loading_it(write, monkeypatch):
    monkeypatch.setattr(streams, "MAX_LINE", 100)
    long = json.dumps({"turns": ["x" * 5_000_000]}).encode()
    heard: list[LogError] = []
    log = write(LINES + long + b"\n" + LINES)
    assert ids(log, on_bad=heard.append) == IDS * 2
    assert [error.line for error in heard] == [4]
    with pytest.raises(LogError, match="line 4: the line is longer than"):
        ids(log)


def test_too_large_json_is_rejected(write, monkeypatch):
    monkeypatch.setattr(streams, "MAX_WHOLE", 100)
    with pytest.raises(LogError, match="write one conversation per line"):
        ids(write(json.dumps(TALKS, indent=1).encode()))


def test_lone_surrogates_and_nuls_in_escapes_survive(talk):
    (turn,) = talk(b'{"turns": ["a\\ud800b\\u0000c"]}').turns
    assert turn.text == "a\ud800b\0c"


def test_nan_and_infinity_become_none(talk):
    read = talk(b'{"turns": ["a"], "score": NaN, "far": 1e999, "near": -Infinity}')
    assert read.metadata == {"score": None, "far": None, "near": None}


def test_reading_is_lazy(write):
    reading = readers.read(write(LINES + b"nonsense\n"))
    assert isinstance(next(reading), Trajectory)


def test_dialogue_eval_is_read_whole(request):
    log = request.config.rootpath / "../shared/data/dialogue-eval/conversations.jsonl"
    if not log.exists():
        pytest.skip("the dialogue-eval data is not next to the project")
    assert sum(1 for _ in readers.read(log)) == 3510
