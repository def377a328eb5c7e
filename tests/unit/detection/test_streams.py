"""Text that repeats itself while it streams, and text that only looks like it."""

import base64
import random

import pytest

from chimeralab import Guard
from chimeralab.core.errors import InputError
from chimeralab.detection.streams import Chant, MessageStreams, TextStream
from chimeralab.integrations.watch import Watch

LEAD = "Let me think about this question with care, since it is a hard one.\n"
CHANTS = {
    "one word": "again " * 400,
    "a word and a tag": "court <br>" * 400,
    "punctuation": "?!" * 1500,
    "a row of a table": "| 4 | pending | none | waiting for review |\n" * 100,
    "JSON with an index": "".join(f'{{"id": {n}, "name": "item"}},\n' for n in range(1, 300)),
    "prose with an index": "".join(f"Step {n}: carry on as before. " for n in range(95, 300)),
    "one character of Chinese": "哈" * 2000,
    "a sentence of Chinese": "我不知道。" * 500,
    "a sentence": "It depends, as I have said, on what you want and on what there is; we shall see."
    * 40,
}
SLOW_CHANTS = {
    "a ruler": "-" * 9000,
    "spaces": " " * 9000,
    "one letter": "A" * 9000,
    "bytes": "0x00, 0xff, " * 900,
    "base64 that repeats": base64.b64encode(bytes(range(90)) * 90).decode(),
}
WORDS = "red green blue brown quick slow heavy light round square early late near far".split()


def numbers(seed: int = 4) -> random.Random:
    return random.Random(seed)


def names(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=4))


def innocents() -> dict[str, str]:
    rng = numbers()
    rows = [f"| {n} | {names(rng)} | {rng.random():.3f} | yes | no |" for n in range(60)]
    items = [f"- Buy a {names(rng)} lamp for the {rng.choice(WORDS)} room" for _ in range(60)]
    fields = [f"    self.{name}_{n} = Field({n}, default=None)" for n, name in enumerate(WORDS * 5)]
    cases = [f"        case {n}: return handle_{n}(event);" for n in range(80)]
    log = [f"2026-11-18 12:{n // 60:02}:{n % 60:02} INFO heartbeat of worker ok" for n in range(99)]
    verses = [
        f"{names(rng)}\n{names(rng)}\n{names(rng)}\nAnd the river rolls on\n" for _ in "12345"
    ]
    frames = "".join(f"\x1b[32m    at Function.check (/src/setup.ts:{n}:42)\n" for n in range(20))
    return {
        "a table": "\n".join(rows),
        "an empty form": "\n".join(["| day | plan | done |", "|---|---|---|", *["| | | |"] * 31]),
        "a list of similar items": "\n".join(items),
        "code with similar lines": "\n".join(fields),
        "a switch": "\n".join(cases),
        "numbers": ", ".join(map(str, range(900))),
        "base64": base64.b64encode(rng.randbytes(4000)).decode(),
        "a poem": "\n".join(verses),
        "a log": "\n".join(log),
        "a terminal": "\x1b[1A\x1b[2KBROWSER: Failed to load a resource (400).\n\n" * 99,
        "stack traces in colours": "".join(f"{names(rng)}\n{frames}" for _ in range(40)),
        "a matrix of zeros": "\n".join(["0, 0, 0, 0, 0, 0, 0, 0,"] * 40),
    }


def listen(text: str, size: int) -> tuple[Chant | None, int]:
    """Feed a text in pieces; return the first chant and how many characters had come."""
    stream = TextStream()
    for at in range(0, len(text), size):
        if found := stream.feed(text[at : at + size]):
            return found, at + size
    return stream.close(), len(text)


@pytest.mark.parametrize("name", CHANTS)
@pytest.mark.parametrize("size", [1, 7, 49, 100])
def test_chant_is_found_with_the_piece_that_has_its_600th_character(name: str, size: int) -> None:
    found, heard = listen(LEAD + CHANTS[name], size)
    assert found
    assert heard < len(LEAD) + 600 + size
    assert len(LEAD) <= found.cut_at <= len(LEAD) + 2 * len(found.text)


@pytest.mark.parametrize("name", SLOW_CHANTS)
def test_what_data_consist_of_is_a_chant_after_2400_characters(name: str) -> None:
    found, heard = listen(LEAD + SLOW_CHANTS[name], 100)
    assert found
    assert heard >= len(LEAD) + 2400


@pytest.mark.parametrize("name", innocents())
@pytest.mark.parametrize("size", [5, 100, 5000])
def test_text_that_is_only_similar_is_not_a_chant(name: str, size: int) -> None:
    assert listen(LEAD + innocents()[name], size)[0] is None


def test_paragraphs_that_recur_in_any_order_are_found_by_their_lines() -> None:
    rng = numbers()
    said = [f"The {names(rng)} {names(rng)} is what we need to look at next.\n" for _ in range(20)]
    text = LEAD + "".join(rng.choice(said) for _ in range(600))
    found, heard = listen(text, 100)
    assert found
    assert found.kind == "lines"
    assert heard < 30_000
    assert text[:heard].splitlines().count(found.text) == found.times


def test_guard_says_once_where_to_cut_and_starts_anew_with_the_next_message() -> None:
    guard = Guard(vectors=False)
    guard.update({"role": "user", "content": "Go."})
    cuts = [cut for _ in range(400) if (cut := guard.feed("court <br>"))]
    assert [(cut.cut_at, cut.times, cut.repeated) for cut in cuts] == [(10, 60, "court <br>")]
    assert cuts[0].loop.began == 2
    assert cuts[0].advice.startswith("You have written “court <br>” 60 times in a row.")
    guard.update({"role": "assistant", "content": "court <br>" * 400})
    assert guard.feed("court <br>" * 40) is None


def test_reasoning_is_a_stream_of_its_own() -> None:
    guard = Guard(vectors=False)
    found = [guard.feed("Wait. " if n % 2 else "Well. ", reasoning=n % 2 == 1) for n in range(400)]
    assert [cut.repeated for cut in found if cut] == ["Well. ", "Wait. "]


def test_delta_that_is_not_text_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"a delta is 5; expected a text"):
        Guard(vectors=False).feed(5)  # type: ignore[arg-type]


def test_watch_keeps_conversations_apart_and_ends_a_stream_with_its_message() -> None:
    watch = Watch()
    talk = [{"role": "user", "content": "Go."}]
    watch.follow(talk, key="a")
    for _ in range(59):
        assert watch.feed("court <br>", key="a") is None
        watch.feed("council <br>", key="b")
    cut = watch.feed("court <br>", key="a")
    assert cut
    assert cut.loop.began == 2
    watch.follow([*talk, {"role": "assistant", "content": "court"}], key="a")
    assert watch.feed("court <br>" * 40, key="a") is None


def test_error_in_a_stream_is_contained_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch()

    def fail(self: MessageStreams, delta: str, *, reasoning: bool) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(MessageStreams, "feed", fail)
    assert [watch.feed("a"), watch.feed("b")] == [None, None]
    assert len(caplog.records) == 1


def test_switch_turns_streams_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    assert Watch().feed("court <br>" * 400) is None
