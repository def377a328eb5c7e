"""Laws of the guard on random logs: its advice is true, and a nudge comes before a stop."""

import re
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from chimeralab import Guard
from chimeralab.detection.guard import MAX_POSITIONS
from chimeralab.integrations.watch import Watch

TEXTS = (
    "Let me look at the same file again.",
    "I will say “hello” to the [guard:01234567] of the house. Loop guard: done.",
    "Thank you so much, goodbye!",
    "The harbour froze over in the second week of January, and nobody expected it to.",
)
RESULTS = (
    "no rows",
    "1 failed",
    "Error: connection refused",
    "done at {n:02}:00:01",
    "{n} of 99",
    "head " * 400 + "tail {n}",
    "",
)
ARGUMENTS: tuple[Any, ...] = (
    {"page": 1}, {"page": 2}, '{"page": 1}', "a “b”", "x" * 90 + "1", "x" * 90 + "2", None,
)  # fmt: skip


class Called(NamedTuple):
    position: int
    name: str
    arguments: str
    outcome: str
    shown: str


VARIED = -1  # stands for arguments that are new in each call


def call_parts() -> st.SearchStrategy[list[tuple[str, int, int]]]:
    names, arguments = st.sampled_from(["look", "bash"]), st.integers(VARIED, 6)
    return st.lists(st.tuples(names, arguments, st.integers(0, 6)), min_size=1, max_size=3)


def arguments_of(number: int, n: int) -> Any:
    return {"n": n} if number == VARIED else ARGUMENTS[number]


# A step is said or called, and is taken several times in a row.
STEPS = st.lists(
    st.tuples(st.one_of(st.integers(0, 3), call_parts()), st.integers(1, 7)), max_size=12
)


def messages_of(step: int | list[tuple[str, int, int]], n: int) -> list[dict[str, Any]]:
    if isinstance(step, int):
        return [{"role": ("assistant", "user")[n % 2], "content": TEXTS[step]}]
    calls = [
        {"id": f"c{n}_{i}", "function": {"name": name, "arguments": arguments_of(arguments, n)}}
        for i, (name, arguments, _) in enumerate(step)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"c{n}_{i}", "content": RESULTS[result].format(n=n)}
        for i, (_, _, result) in enumerate(step)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def as_shown(text: str) -> str:
    text = " ".join(text.split())
    text = text if len(text) <= 80 else text[:79] + "…"
    text = text.replace("“", "'").replace("”", "'").rstrip(".")
    return text.replace("[guard:", "(guard:").replace("Loop guard:", "Loop guard;")


def called(step: list[tuple[str, int, int]], n: int, position: int) -> list[Called]:
    listed = []
    for name, at, result in step:
        arguments = arguments_of(at, n)
        written = arguments if isinstance(arguments, str) else str(arguments or "")
        written = written.replace("'", '"')
        outcome = re.sub(r"\d\d:00:01", "#", RESULTS[result].format(n=n))
        listed.append(Called(position, name, written, outcome, as_shown(f"{name} {written}")))
    return listed


def check_advice(advice: str, log: list[Called], texts: list[tuple[int, str]], now: int) -> None:
    """Every number and every quotation in the advice is true of the log."""
    quotations = re.findall("“(.*?)”", advice)
    numbers = [int(number) for number in re.findall(r"\d+", re.sub("“.*?”", "", advice))]
    if "times" not in advice:
        [since] = numbers
        assert 1 <= since <= now
        assert all(
            any(at >= since and as_shown(text) == quotation for at, text in texts)
            for quotation in quotations
        )
        return
    [quotation], (times, since) = quotations, numbers[:2]
    calls = [call for call in log if call.position >= since]
    assert any(call.position == since for call in calls)
    if advice.startswith("You have called"):
        groups = [
            sum(
                (each.name, each.arguments, each.outcome)
                == (call.name, call.arguments, call.outcome)
                for each in calls
            )
            for call in calls
            if call.shown == quotation
        ]
        assert times in groups
        assert times <= MAX_POSITIONS
        return
    alike = [
        [each for each in calls if each.outcome == call.outcome and each.name == quotation]
        for call in calls
    ]
    counts = [(len(each), len({call.arguments for call in each})) for each in alike]
    assert (times, numbers[2]) in counts
    assert ("has failed" in advice) == any(
        re.search("failed|Error", each[0].outcome)
        for each, count in zip(alike, counts, strict=True)
        if count == (times, numbers[2])
    )


@given(STEPS)
def test_every_number_and_quotation_of_the_advice_is_true(steps: list[Any]) -> None:
    guard, log, texts, n = Guard(vectors=False), list[Called](), list[tuple[int, str]](), 0
    position = 0
    for step, times in steps:
        for _ in range(times):
            n += 1
            messages, begun = messages_of(step, n), position + 1
            for i, message in enumerate(messages):
                position += 1
                if isinstance(step, int):
                    texts.append((position, TEXTS[step]))
                elif i:  # the result of one call
                    log.append(called(step, n, begun)[i - 1])
                signal = guard.update(message)
                if signal.loop:
                    check_advice(signal.loop.advice, log, texts, position)


@given(STEPS)
def test_stop_comes_only_after_a_nudge(steps: list[Any]) -> None:
    guard, watch, n = Guard(vectors=False), Watch(), 0
    warned: set[Any] = set()
    nudged: set[Any] = set()
    for step, times in steps:
        for _ in range(times):
            n += 1
            for message in messages_of(step, n):
                signal = guard.update(message)
                if signal.loop and signal.loop.level != "notice":
                    name = signal.loop.loop.stream, signal.loop.loop.noticed
                    assert signal.loop.level == "nudge" or name in warned
                    warned.add(name)
                if message["role"] == "user":
                    nudged.clear()
                found = watch.update(message)
                if found:
                    name = found.loop.stream, found.loop.noticed
                    assert (name in nudged) == (found.action == "stop")
                    nudged.add(name)
