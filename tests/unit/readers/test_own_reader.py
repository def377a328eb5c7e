"""A custom reader is one class, given as the format."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chimeralab import InputError, Trajectory, Turn, detect_file, readers
from chimeralab.readers import formats

SLACK = """
from chimeralab import Trajectory, Turn
from chimeralab.readers import Reader, Unreadable


class Slack(Reader):
    name = "slack"
    recognised = "an object with a channel and its posts"

    def matches(self, value):
        return isinstance(value, dict) and "posts" in value

    def read(self, value, place):
        if "channel" not in value:
            raise Unreadable("channel is missing")
        turns = tuple(Turn(post["said"], post["by"]) for post in value["posts"])
        yield Trajectory(value["channel"], turns, {}, str(place))
"""
POSTS = [{"by": "ann", "said": "Once more."}] * 6


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SLACK, encoding="utf-8")
    log = tmp_path / "posts.jsonl"
    log.write_text(json.dumps({"channel": "help", "posts": POSTS}) + "\n", encoding="utf-8")
    return log


def test_a_class_is_named_as_module_and_class(log: Path) -> None:
    (found,) = detect_file(log, format="mine:Slack")
    assert (found.id, found.collapsed) == ("help", (5, 6))


def test_a_folder_is_searched_for_its_logs(log: Path) -> None:
    (log.parent / "other.json").write_text("{}", encoding="utf-8")
    assert [talk.id for talk in readers.read_all([log.parent], format="mine:Slack")] == ["help"]


def test_unreadable_value_is_reported_with_its_place(log: Path) -> None:
    log.write_text('{"posts": []}', encoding="utf-8")
    with pytest.raises(InputError, match=r"posts\.jsonl, line 1: channel is missing"):
        list(readers.read(log, format="mine:Slack"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mine:Nobody", "format 'mine:Nobody' can't be loaded: "),
        ("mine:Turn", "format 'mine:Turn' is not a subclass of chimeralab.readers.Reader"),
    ],
)
def test_class_that_is_not_a_reader_is_rejected(log: Path, name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        readers.read(log, format=name)


def test_a_registered_reader_is_recognised_by_its_content(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Posts(readers.Reader):
        name = "posts"
        recognised = "an object with posts"

        def matches(self, value: Any) -> bool:
            return isinstance(value, dict) and "posts" in value

        def read(self, value: Any, place: readers.Place) -> Iterator[Trajectory]:
            yield Trajectory("posts", tuple(Turn(post["said"]) for post in value["posts"]))

    monkeypatch.setitem(readers.READERS, Posts.name, Posts)
    assert [talk.id for talk in readers.read(log)] == ["posts"]


def test_a_reader_with_keys_is_asked_only_about_objects_that_have_one(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    class Posts(readers.Reader):
        name = "posts"
        recognised = "an object with posts"
        keys = frozenset({"posts", "messages.post"})

        def matches(self, value: Any) -> bool:
            asked.append(value)
            return False

    others = [{"note": 1}, {"posts": 1}, {"messages": [{"post": 1}]}, {"messages": [{"by": 1}]}]
    # Asked last, it hears only of what no other reader takes for its own.
    without_openai = {k: v for k, v in readers.READERS.items() if k != "openai"}
    monkeypatch.setattr(formats, "READERS", {**without_openai, Posts.name: Posts})
    log.write_text("".join(json.dumps(each) + "\n" for each in others), encoding="utf-8")
    assert list(readers.read(log, on_bad=lambda _: None)) == []
    assert asked == others[1:3]


def test_every_format_says_how_it_is_recognised() -> None:
    assert all(reader.recognised for reader in readers.READERS.values())
    assert all(name == reader.name for name, reader in readers.READERS.items())
