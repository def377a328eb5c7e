"""Laws of reading: any log gives conversations or a clear error, and writing loses nothing."""

import gzip
import io
import json
import random
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Tokens, Trajectory, Turn
from chimeralab.readers import plain
from chimeralab.readers.formats import keys_of
from chimeralab.readers.streams import parse_values
from tests import zstd
from tests.mutation import mutate
from tests.unit.readers.logs_of import LOGS

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

any_text = st.text(st.characters(codec=None), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text
)
FIELDS = """
    id turns speaker text role spoken messages content name tool_calls type tool_use traj request
    response body choices message model conversations from value eval samples epoch attachments
    metadata uuid parentUuid sessionId isSidechain agentId timestamp user assistant
"""
words = st.sampled_from(FIELDS.split())
json_values = st.recursive(
    scalars | words,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(words | any_text, inner, max_size=5)
    ),
    max_leaves=25,
)

TALKS: list[Any] = [
    {"id": "a", "turns": [{"speaker": "A", "text": "Hi"}, "Hello"], "model": "m"},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}]},
    [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]}],
    {"request": {"body": {"messages": []}}, "response": {"choices": [{"message": {"role": "x"}}]}},
    {"conversations": [{"from": "human", "value": "Hi"}, {"user": "a", "assistant": "b"}]},
    {"eval": {"model": "m"}, "samples": [{"id": 1, "epoch": 1, "messages": [{"role": "user"}]}]},
    {"type": "user", "uuid": "1", "parentUuid": "2", "sessionId": "s", "message": {"content": "x"}},
    {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": {"id": "m", "content": "y"}},
]


def archive_of(sample: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        archive.writestr("samples/1_epoch_1.json", sample)
    return file.getvalue()


DAMAGED = [
    b"\n".join(json.dumps(talk).encode() for talk in TALKS),
    json.dumps(TALKS, indent=1).encode(),
    json.dumps(TALKS[0]).encode("utf-16"),
    gzip.compress(json.dumps(TALKS[0]).encode()),
    zstd.compress(json.dumps(TALKS[0]).encode()),
    archive_of(json.dumps({"id": 1, "epoch": 1, "messages": [{"role": "user"}]}).encode()),
]


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    log = bytearray(draw(st.sampled_from(DAMAGED)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(log)))
        end = draw(st.integers(start, min(start + 8, len(log))) | st.just(len(log)))
        log[start:end] = draw(st.binary(max_size=6))
    return bytes(log)


@st.composite
def altered_talks(draw: st.DrawFn) -> bytes:
    """A valid conversation in which one value somewhere is replaced by any other."""
    talk = json.loads(json.dumps(draw(st.sampled_from(TALKS))))
    holder = talk
    while True:
        key = draw(
            st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
        )
        if not isinstance(holder[key], dict | list) or not holder[key] or draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = draw(json_values)
    return json.dumps(talk).encode()


any_log = st.one_of(
    st.binary(max_size=200),
    damaged_logs(),
    altered_talks(),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.lists(json_values, max_size=4).map(
        lambda values: b"\n".join(json.dumps(value).encode() for value in values)
    ),
    json_values.map(lambda value: archive_of(json.dumps(value).encode())),
)
any_format = st.sampled_from([None, *readers.READERS])


def reads_or_refuses(log: Path, form: str | None) -> None:
    heard: list[LogError] = []
    found = list(readers.read(log, format=form, on_bad=heard.append))
    assert found or heard
    for trajectory in found:
        assert isinstance(trajectory, Trajectory)
        assert trajectory.id
        assert all(isinstance(turn.text, str) for turn in trajectory.turns)
        json.dumps(trajectory.as_dict())
    if heard:
        with pytest.raises(LogError):
            list(readers.read(log, format=form))
    else:
        assert list(readers.read(log, format=form)) == found


@quiet
@given(content=any_log, form=any_format)
def test_any_file_gives_conversations_or_a_log_error(tmp_path: Path, content: bytes, form: str):
    log = tmp_path / "any.log"
    log.write_bytes(content)
    reads_or_refuses(log, form)


def test_reader_recognises_no_object_without_one_of_its_keys():
    """So that asking only the readers whose keys a value has never changes which of them wins."""
    chance = random.Random(26)
    parts: list[dict[str, Any]] = []
    for kind, log in LOGS.items():
        whole = gzip.decompress(log.healthy) if kind.endswith(".gz") else log.healthy
        for content in (whole, *(mutate(whole, chance) for _ in range(4))):
            with suppress(readers.Unreadable):
                parts += [each for each, _ in parse_values(content) if isinstance(each, dict)]
    mixed = [chance.choice(parts) | chance.choice(parts) for _ in range(300)]
    for value in parts + mixed:
        for reader in readers.READERS.values():
            if reader.keys and (reader().matches(value) or reader().inner(value)):
                assert reader.keys & keys_of(value), reader.name


names = st.none() | any_text | st.sampled_from(["user", "assistant", "system", "seed", "Tool"])
counts = st.none() | st.integers(0, 10**9)
# Zeros alone are what a log gives that did not count.
tokens = st.none() | st.builds(Tokens, counts, counts, counts, st.booleans()).filter(
    lambda each: any((each.input, each.output, each.total))
)
costs = st.none() | st.floats(0, 1000, exclude_min=True)
turns = st.builds(
    Turn,
    any_text,
    names,
    names,
    names,
    st.booleans(),
    reasoning=names,
    tokens=tokens,
    cost=costs,
    at=st.none() | st.text(min_size=1),
    agent=names,
)
trajectories = st.builds(
    Trajectory,
    id=st.text(st.characters(codec=None), min_size=1, max_size=20),
    turns=st.lists(turns, min_size=1, max_size=6).map(tuple),
    metadata=st.dictionaries(any_text | words, json_values, max_size=4),
    tokens=tokens,
    cost=costs,
    parent=names,
)


@quiet
@given(trajectory=trajectories)
def test_conversation_written_plainly_reads_back_the_same(tmp_path: Path, trajectory: Trajectory):
    log = tmp_path / "one.jsonl"
    log.write_text(plain.dumps(trajectory) + "\n")
    assert list(readers.read(log)) == [replace(trajectory, source=f"{log}:1")]


@quiet
@given(some=st.lists(trajectories, min_size=1, max_size=4))
@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_packing_a_log_changes_nothing(tmp_path: Path, some: list[Trajectory], pack: Any):
    raw = "".join(plain.dumps(trajectory) + "\n" for trajectory in some).encode()
    bare, packed = tmp_path / "bare", tmp_path / "packed"
    bare.write_bytes(raw)
    packed.write_bytes(pack(raw))
    assert unplaced(bare) == unplaced(packed)


@quiet
@given(some=st.lists(trajectories, min_size=1, max_size=4), indent=st.none() | st.integers(0, 3))
def test_lines_and_one_list_hold_the_same(
    tmp_path: Path, some: list[Trajectory], indent: int | None
):
    lines = [plain.dumps(trajectory) for trajectory in some]
    as_lines, as_list = tmp_path / "lines", tmp_path / "list"
    as_lines.write_text("\n".join(lines))
    as_list.write_text(json.dumps([json.loads(line) for line in lines], indent=indent))
    assert unplaced(as_lines) == unplaced(as_list)


def unplaced(log: Path) -> list[Trajectory]:
    return [replace(trajectory, source=None) for trajectory in readers.read(log)]
