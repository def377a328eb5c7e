"""Laws of the guard on random logs: its advice is true, and a nudge comes before a stop."""

import re
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from chimeralab import Guard
from chimeralab.detection.advice import MAX_CALLS
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


CAUSE = re.compile(r"It began when [a-z ]+ \(message (\d+)(?:: “(.*?)”)?\)\. ")


def check_cause(advice: str, log: list[Called], since: int) -> None:
    """What the advice calls the cause is the start of a result from just before the loop."""
    for position, said in CAUSE.findall(advice):
        results = [call.outcome for call in log if call.position == int(position)]
        assert since - 3 <= int(position) <= since
        assert any(as_shown(each)[:40].rstrip(".") == said[:40].rstrip(".") for each in results)


def check_advice(advice: str, log: list[Called], texts: list[tuple[int, str]], now: int) -> None:
    """Every number and every quotation in the advice is true of the log."""
    advice = CAUSE.sub("", advice)
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
    times, since, *others = numbers
    calls = [call for call in log if call.position >= since]
    assert any(call.position == since for call in calls)
    assert times <= MAX_CALLS
    if "different" in advice:  # of one answer, quoted last unless it is empty
        groups = [[each for each in calls if each.outcome == call.outcome] for call in calls]
        counts = {(len(each), len({call.arguments for call in each})) for each in groups}
        by_tool = {
            (
                sum(same),
                len({c.arguments for c, is_same in zip(calls, same, strict=True) if is_same}),
            )
            for call in calls
            for same in [[(c.name, c.outcome) == (call.name, call.outcome) for c in calls]]
        }
        assert (times, others[0]) in counts | by_tool
        assert "nothing" in advice or any(as_shown(each.outcome) in quotations[-1:] or
            "#" in each.outcome for each in calls)  # fmt: skip
    elif "nothing has changed" in advice:
        waits = [call for call in calls if "refused" in call.outcome]
        assert quotations[0] in {call.shown for call in waits} | {call.name for call in waits}
        assert 1 < times <= len(waits)
        assert times == len(waits) or len({call.name for call in waits} | {
            call.arguments for call in waits}) > 2  # fmt: skip
    else:
        assert "You have called" in advice or "has failed in the same way" in advice
        assert times in [
            sum(each[1:] == call[1:] for each in calls)
            for call in calls
            if call.shown == quotations[0]
        ]


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
                    check_cause(signal.loop.advice, log, signal.loop.loop.began)
                    check_cause(signal.loop.advice, log, signal.loop.loop.began)


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
