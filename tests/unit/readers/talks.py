"""Two conversations that every format writes: a healthy one and a looping one."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """A message, or a call with its result."""

    who: str
    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None


def say(who: str, text: str) -> Step:
    return Step(who, text)


def use(tool: str, result: str, **arguments: Any) -> Step:
    return Step("call", result, tool, arguments)


Talk = Sequence[Step]

HEALTHY: Talk = [
    say("user", "Which of our files is the largest?"),
    use("bash", "12K a.txt\n90K b.bin", command="du -a"),
    say("assistant", "The largest file is b.bin with 90 kilobytes."),
    say("user", "And what is in the other one?"),
    use("bash", "Meeting notes of March.", command="cat a.txt"),
    say("assistant", "It holds the notes of a meeting in March."),
    say("user", "Thanks. Can I delete b.bin?"),
    say("assistant", "Nothing refers to it, so deleting it is safe."),
]
LOOPING: Talk = [
    step
    for _ in range(6)
    for step in (
        say("user", "Please fix the failing test."),
        use("bash", "1 failed", command="pytest -q"),
        say("assistant", "The test still fails, so let me run it again."),
    )
]
TALKS = {"healthy": HEALTHY, "looping": LOOPING}
