"""Test helpers: `assert_no_loop`, also available as a pytest fixture."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chimeralab.detection.judging import Conversation
    from chimeralab.detection.loops import Loops
    from chimeralab.detection.seam import Detector
    from chimeralab.detection.tools import Tools
    from chimeralab.readers.memory import DataFrame

__all__ = ["assert_no_loop"]


def assert_no_loop(
    messages: "Conversation | DataFrame",
    *,
    loops: "Loops | None" = None,
    detector: "Detector | None" = None,
    speaker: str | None = None,
    tools: "Tools | None" = None,
) -> None:
    """Fail if a conversation loops or is empty.

    It accepts the same input as `detect`, and the error says what repeats. By default, words and
    tool calls are compared; with ``detector=chimeralab.LOCKED``, meaning is too, and a collapse
    also fails. ``tools`` are rules per tool, as in `Guard`; those of the project's configuration
    count, too.

    >>> assert_no_loop(["Shall we go?", "By train, please.", "Then I'll book it."])
    >>> assert_no_loop(["Let me try again."] * 5)
    Traceback (most recent call last):
    AssertionError: the conversation loops:
      message 4 repeats messages 2 and 3: “Let me try again.” (same text again since message 1)
    """
    __tracebackhide__ = True  # so that pytest shows the line of the test
    # Imported here because pytest loads this module at every start.
    from chimeralab.core.records import Detection  # noqa: PLC0415
    from chimeralab.detection.judging import detect  # noqa: PLC0415
    from chimeralab.detection.tools import choose_loops, choose_tools  # noqa: PLC0415
    from chimeralab.detection.verdict import findings  # noqa: PLC0415

    loops, tools = choose_loops(loops), choose_tools(tools)
    found = detect(messages, speaker=speaker, detector=detector, loops=loops, tools=tools)
    for each in [found] if isinstance(found, Detection) else found:
        name = "the conversation" if isinstance(found, Detection) else f"conversation {each.id!r}"
        if not each.steps:
            raise AssertionError(f"{name} has nothing to judge: no message and no tool call")
        if each.looping or each.collapsed:
            lines = "".join(f"\n  {line}" for line in findings(each))
            raise AssertionError(f"{name} {'loops' if each.looping else 'collapsed'}:{lines}")
    if not isinstance(found, Detection) and not found:
        raise AssertionError("there is no conversation to judge")
