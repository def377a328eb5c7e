"""Inspect logs, as archives with either compression and as JSON."""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.readers import streams
from tests import zstd

RUN = {"version": 2, "eval": {"task": "sums", "model": "mock/one", "created": "now"}, "plan": {}}

SAMPLE = {
    "id": "a/b c",
    "epoch": 1,
    "input": "1+2?",
    "messages": [
        {"id": "1", "role": "system", "content": "Add."},
        {"id": "2", "role": "user", "content": "1+2?", "source": "input"},
        {
            "id": "3",
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "function": "add", "arguments": {"x": 1}}],
            "model": "mock/one",
        },
        {"id": "4", "role": "tool", "content": "3", "tool_call_id": "c", "function": "add"},
        {
            "id": "5",
            "role": "assistant",
            "content": [
                {"type": "reasoning", "reasoning": "easy"},
                {"type": "text", "text": "It is 3."},
            ],
            "model": "mock/two",
        },
    ],
    "attachments": {},
    "events": [],
}


def packed(members: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Write an archive like Inspect's; zstd members are added by hand for older Pythons."""
    raw = {
        name: value if isinstance(value, bytes) else json.dumps(value).encode()
        for name, value in members.items()
    }
    return _with_zstd(raw) if method == streams.ZSTD else _with_zipfile(raw, method)


def _with_zipfile(members: dict[str, bytes], method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as log:
        for name, data in members.items():
            log.writestr(name, data)
    return file.getvalue()


def _with_zstd(members: dict[str, bytes]) -> bytes:
    body, directory = b"", b""
    for name, data in members.items():
        # Two frames in one member, as Inspect splits long ones.
        half = len(data) // 2
        inner = zstd.compress(data[:half]) + zstd.compress(data[half:])
        sizes = (zlib.crc32(data), len(inner), len(data), len(name))
        here = len(body)
        body += struct.pack("<4s5H3I2H", b"PK\3\4", 63, 0, 93, 0, 33, *sizes, 4) + name.encode()
        body += struct.pack("<2H", 0xCAFE, 0) + inner
        directory += struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 63, 63, 0, 93, 0, 33, *sizes, *[0] * 5, here
        )
        directory += name.encode()
    counts = (len(members), len(members), len(directory), len(body))
    return body + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, *counts, 0)


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, streams.ZSTD]


@pytest.fixture
def reading(write: Callable[..., Any]) -> Callable[..., list[Any]]:
    def reading(content: bytes, **options: Any) -> list[Any]:
        return list(readers.read(write(content, name="run.eval"), **options))

    return reading


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_is_a_conversation_under_any_compression(reading, method):
    content = packed({"header.json": RUN, "samples/a/b c_epoch_1.json": SAMPLE}, method)
    (read,) = reading(content)
    assert [(t.role, t.text, t.spoken, t.model) for t in read.turns] == [
        ("system", "Add.", False, None),
        ("user", "1+2?", True, None),
        ("assistant", "", False, "mock/one"),
        ("tool", "3", False, None),
        ("assistant", "It is 3.", True, "mock/two"),
    ]
    assert read.id == "sums/a/b c_epoch_1"
    assert read.metadata == {"model": "mock/one", "task": "sums", "sample": "a/b c", "epoch": 1}
    assert read.source.endswith("run.eval (samples/a/b c_epoch_1.json)")


def test_the_json_form_reads_the_same(reading, write):
    (from_archive,) = reading(packed({"header.json": RUN, "samples/a/b c_epoch_1.json": SAMPLE}))
    log = json.dumps(RUN | {"status": "success", "samples": [SAMPLE]}, indent=2).encode()
    (from_json,) = readers.read(write(log, name="run.json"))
    assert from_json.turns == from_archive.turns
    assert from_json.metadata == from_archive.metadata
    assert from_json.id == from_archive.id


def test_an_unfinished_log_has_its_header_in_the_journal(reading):
    members = {"_journal/start.json": RUN, "samples/1_epoch_1.json": SAMPLE}
    assert reading(packed(members))[0].metadata["model"] == "mock/one"


def test_samples_are_in_natural_order(reading):
    names = [f"samples/{n}_epoch_1.json" for n in (10, 2, 1)]
    samples = {name: SAMPLE | {"id": int(name[8:].split("_")[0])} for name in names}
    found = reading(packed({"header.json": RUN} | samples))
    assert [one.metadata["sample"] for one in found] == ["1", "2", "10"]


def test_attachments_are_restored(reading):
    sample = SAMPLE | {
        "messages": [
            {"role": "user", "content": "attachment://aa"},
            {"role": "assistant", "content": [{"type": "text", "text": "attachment://bb"}]},
        ],
        "attachments": {"aa": "A long text.", "bb": "Another."},
    }
    (read,) = reading(packed({"header.json": RUN, "samples/1_epoch_1.json": sample}))
    assert [turn.text for turn in read.turns] == ["A long text.", "Another."]


def test_sample_without_an_id_is_named_after_its_file(reading):
    sample = {key: SAMPLE[key] for key in ("messages",)}
    (read,) = reading(packed({"header.json": RUN, "samples/1_epoch_1.json": sample}))
    assert read.id == "run#samples/1_epoch_1.json"


def test_compressed_archive_is_read(write):
    content = gzip.compress(packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}))
    assert len(list(readers.read(write(content, name="run.eval.gz")))) == 1


def test_a_bad_sample_is_named_and_the_others_are_read(reading):
    members = {
        "header.json": RUN,
        "samples/1_epoch_1.json": b'{"id": 1,',
        "samples/2_epoch_1.json": SAMPLE | {"messages": []},
        "samples/3_epoch_1.json": SAMPLE,
    }
    heard: list[LogError] = []
    found = reading(packed(members), on_bad=heard.append)
    assert len(found) == 1
    assert [error.reason.partition(" (")[0] for error in heard] == [
        "samples/1_epoch_1.json: the JSON is truncated at column 10",
        "samples/2_epoch_1.json: no turns",
    ]


def test_chunked_samples_are_rejected_by_name(reading):
    members = {"header.json": RUN, "samples/1_epoch_1/sample.json": {"message_refs": [[0, 3]]}}
    with pytest.raises(LogError, match=r"1_epoch_1/sample\.json: stored in chunks"):
        reading(packed(members))


def test_other_zip_archive_is_not_a_log(reading):
    with pytest.raises(LogError, match="not an Inspect log"):
        reading(packed({"readme.txt": b"Hi"}))


def test_archive_without_samples_has_no_conversations(reading):
    with pytest.raises(LogError, match="has no conversations"):
        reading(packed({"header.json": RUN}))


def test_a_json_log_without_samples_says_so(reason):
    assert reason(RUN) == "not an Inspect log with samples"


@pytest.mark.parametrize("method", METHODS)
def test_truncated_archive_is_an_error(reading, method):
    content = packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}, method)
    with pytest.raises(LogError, match="damaged or truncated"):
        reading(content[:-40])


@pytest.mark.parametrize("method", METHODS)
def test_a_changed_byte_in_a_sample_is_an_error(reading, method):
    content = bytearray(packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}, method))
    content[content.rindex(b"samples/", 0, content.index(b"PK\1\2")) + 200] ^= 0xFF
    with pytest.raises(LogError, match=r"samples/1_epoch_1\.json: "):
        reading(bytes(content))


def test_member_with_a_too_large_declared_size_is_rejected(reading, monkeypatch):
    monkeypatch.setattr(streams, "MAX_MEMBER", 500)
    with pytest.raises(LogError, match=r"samples/1_epoch_1\.json: larger than"):
        reading(packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}))


def test_member_larger_than_its_declared_size_is_rejected(reading):
    content = packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}, streams.ZSTD)
    size = struct.pack("<I", len(json.dumps(SAMPLE)))
    assert content.count(size) == 2
    with pytest.raises(LogError, match="checksum"):
        reading(content.replace(size, struct.pack("<I", 100)))


def test_zstd_member_with_a_wrong_checksum_is_rejected(reading):
    content = packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}, streams.ZSTD)
    checksum = struct.pack("<I", zlib.crc32(json.dumps(SAMPLE).encode()))
    assert content.count(checksum) == 2
    with pytest.raises(LogError, match="checksum"):
        reading(content.replace(checksum, struct.pack("<I", 1)))


def test_member_with_a_too_large_compressed_size_is_rejected(reading):
    content = packed({"header.json": RUN, "samples/1_epoch_1.json": SAMPLE}, zipfile.ZIP_STORED)
    size = struct.pack("<I", len(json.dumps(SAMPLE)))
    with pytest.raises(LogError, match="larger than"):
        reading(content.replace(size + size, struct.pack("<I", (1 << 32) - 2) + size))


def test_unsupported_zip_methods_are_rejected_by_number(reading):
    content = packed({"header.json": RUN}, zipfile.ZIP_BZIP2)
    with pytest.raises(LogError, match="unsupported zip method 12"):
        reading(content)


def test_zip_archive_is_rejected_for_other_formats(reading):
    with pytest.raises(LogError, match="zip archive"):
        reading(packed({"header.json": RUN}), format="plain")
