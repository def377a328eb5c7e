"""Why a loop began: what happened in the few messages before it, by rules that show it.

Each rule names the messages that it rests on. None fires on a mere repetition: what the rules can't
tell has no cause. How often they are right: benchmarks/validity/causes.py.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from chimeralab.core.records import RESULT_ROLES, Call, Cause, Loop, Turn, role_of_turn
from chimeralab.detection.calls import HEAD
from chimeralab.detection.words import is_blank

CAUSES = {
    "failure": "a tool failed",
    "empty": "a result was empty",
    "cut": "a message was cut off",
    "farewell": "both sides were done",
}
"""The causes of loops as people read them."""
BEFORE = 3  # messages before a loop in which its cause is looked for
EXCERPT = 160
TAIL = 200  # characters: a farewell ends a message

# A failure is stated at the start of a result, or as programs state it, not just mentioned in it.
_FAILURE = re.compile(
    r"^\W*(?:observation\W+|observed output of cmd \S+ executed\W+|tool error\W+)?(?:"
    r"(?:\w+\.)*\w*(?:error|exception)\b ?[:(!]|error\b|traceback \(most recent|fatal:|failed\b"
    r"|failure\b|exit ?code:? [1-9]|execution failed|invalid\b|cannot\b|could not\b|unable to\b"
    r"|no replacement was performed|your proposed edit has introduced|timed? ?out\b"
    r"|file has not been read|<tool_use_error>|<returncode>[1-9]|\(?rc=[1-9])"
    r"|: (?:command not found|no such file or directory|can't open file|permission denied)"
    r"|\[errno \d+\]|already exists at: .* cannot"
    r"|traceback \(most recent call last\)|(?m:^\w*(?:\.\w+)*(?:Error|Exception): )",
    re.IGNORECASE,
)
# Refusals and unknown tools are causes of their own, too rare to show that a rule is right.
_OTHER = re.compile(
    r"permission (?:to use \S+ )?(?:has been )?denied|doesn't want to (?:proceed|take this action)"
    r"|tool use was rejected|requires? (?:your )?approval|haven't granted|operation not permitted"
    r"|access (?:is )?denied|(?:user|human) (?:rejected|declined|denied)"
    r"|(?:unknown|no such|unrecognized|invalid|unsupported) (?:tool|function)\b"
    r"|(?:tool|function) ['\"`]?[\w.-]+['\"`]? (?:is )?(?:not found|does not exist|not available"
    r"|not registered|not recognized|is not a (?:valid|known))",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"^\W*(?:(?:there (?:are|were) )?no (?:\w+ )?(?:results?|match\w*|files?|entries|data|records?"
    r"|hits|rows|documents?|items?)(?: (?:were )?(?:found|match\w*|for|in)\b.{0,120})?"
    r"|found 0\b.{0,80}|0 (?:results?|matches|files).{0,40}|nothing (?:was )?found|empty|null)?"
    r"\W*$",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"\bcuts? (?:it |me |you |\w+self )?off\b|\bgot cut\b|\btruncated\b|\bmid-?sentence\b"
    r"|\bincomplete\b|\bunfinished\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:good ?bye|bye\b|farewell|take care|see you|see ya|until next time|signing off"
    r"|you're welcome|you too\b|thank(?:s| you) for (?:your (?:help|time)|the"
    r" (?:chat|talk)|all\b|everything|hearing)"
    r"|pleasure (?:chatting|talking|exploring|speaking)"
    r"|wonderful conclusion|have a (?:great|nice))",
    re.IGNORECASE,
)
_TELLS_ERROR = re.compile(
    r"\bthe error (?:message )?(?:indicates|shows|says|states)\b", re.IGNORECASE
)


def attach_causes(loops: Sequence[Loop], turns: Sequence[Turn]) -> tuple[Loop, ...]:
    """Add to each loop its cause, if one is found."""
    return tuple(replace(loop, cause=find_cause(turns, loop)) for loop in loops)


def find_cause(turns: Sequence[Turn], loop: Loop) -> Cause | None:
    """What began a loop, with the messages that show it; None if nothing does.

    >>> turns = [Turn("", calls=(Call("read", {"path": "a"}, "Error: no file a"),))] * 3
    >>> loop = Loop("verdict", "tool", "calls", 1, 3, None, 1, (1, 2), "read", 0.8)
    >>> find_cause(turns, loop)
    Cause(kind='failure', messages=(1,), excerpt='Error: no file a')
    """
    first = max(1, loop.began - BEFORE)
    near = [(n, turns[n - 1]) for n in range(first, min(loop.began, len(turns)) + 1)]
    if loop.stream == "calls":  # waiting is the answer to a call that worked
        return next(_find_in_calls(near[-1:] if loop.kind == "waiting" else near, loop), None)
    found = next(_find_in_calls(near[-2:], loop), None)
    after = near + [(n, turns[n - 1]) for n in (loop.began + 1,) if n <= len(turns)]
    return found or _find_in_talk([(n, turn) for n, turn in after if turn.text.strip()])


def classify_result(call: Call) -> str | None:
    """What went wrong with a call, if anything.

    >>> classify_result(Call("find", "x.py", "No files found")), classify_result(Call("ls"))
    ('empty', None)
    """
    head = (call.result or "")[:HEAD]
    if call.result is None or _OTHER.search(head):
        return None
    if call.error is True or (call.error is None and _FAILURE.search(head)):
        return "failure"
    return "empty" if _EMPTY.match(" ".join(head.split())) else None


def _find_in_calls(near: Sequence[tuple[int, Turn]], loop: Loop) -> Iterator[Cause]:
    """What went wrong with the calls before a loop or at its start, the nearest first."""
    for n, turn in reversed(near):
        for call in turn.calls:
            if call.result is None and _TELLS_ERROR.search(turn.text):  # of a call before it
                yield _make("failure", [n], turn.text)
            kind = classify_result(call)
            # An empty result begins a loop of the same call, and of nothing else.
            own = n == loop.began and loop.stream == "calls" and loop.excerpt.startswith(call.name)
            if kind and (kind != "empty" or own):
                yield _make(kind, [n], call.result or "")


def _find_in_talk(near: Sequence[tuple[int, Turn]]) -> Cause | None:
    """What ends a talk or breaks it off, in messages one after the other."""
    spoken = [(n, turn) for n, turn in near if role_of_turn(turn) not in RESULT_ROLES]
    pairs = list(pairwise(spoken))
    for (n, before), (m, turn) in pairs:
        if _is_cut(before.text) and _CUT.search(turn.text[:HEAD]):
            return _make("cut", [n, m], before.text[-EXCERPT // 2 :])
    for (n, before), (m, turn) in pairs:
        if _DONE.search(before.text[-TAIL:]) and _DONE.search(turn.text[-TAIL:]):
            return _make("farewell", [n, m], turn.text)
    return None


def _is_cut(text: str) -> bool:
    """Whether a message ends in the middle of a sentence."""
    return not is_blank(text) and (text.rstrip()[-1].isalnum() or text.rstrip()[-1] in ",:;\"'-(*")


def _make(kind: str, messages: Sequence[int], text: str) -> Cause:
    excerpt = " ".join(text.split())
    return Cause(
        kind, tuple(messages), excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…"
    )
