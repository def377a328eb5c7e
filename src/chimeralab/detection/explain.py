"""Why a conversation is found to loop, or not: the evidence at each message, rule by rule.

The detector itself runs, with memories that also write down what they compare and what weakens it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from chimeralab.core.errors import InputError
from chimeralab.core.records import RESULT_ROLES, Call, Detection, Turn, role_of_turn
from chimeralab.detection.classes import PATIENCE, Repetition, StepLog
from chimeralab.detection.evidence import NOTHING, TextEvidence, TextMemory, strongest
from chimeralab.detection.locked import LOCKED, LockedRule
from chimeralab.detection.loops import IDENTICAL_CALLS, LOOPS, Cusum, Loops, LoopStream, has_text
from chimeralab.detection.measure import encode_batches
from chimeralab.detection.seam import Detector
from chimeralab.detection.tools import Tools, read_rules
from chimeralab.detection.winding import WindingDown
from chimeralab.detection.words import SpokenMessage, ramp
from chimeralab.readers.memory import parse_conversation

if TYPE_CHECKING:
    from chimeralab.detection.judging import Conversation
    from chimeralab.embedding.encoder import Encoder

EXCERPT = 80
ROUNDING = 1e-9
RULES = {
    "repeat": "the same words, order or template as earlier messages",
    "paraphrase": "the same stems as earlier messages, with hardly a new word",
    "courtesy": "nothing but courtesy, soon after courtesy",
    "own": "the same as its speaker's own earlier messages",
}


class TracedMemory(TextMemory):
    """The memory of texts, with what weakened the last message, and how strong it was before."""

    def weigh(self, message: SpokenMessage, speaker: str | None) -> TextEvidence:
        self.raw, self.notes, self.apart = NOTHING, list[str](), list[str]()
        self.found = super().weigh(message, speaker)
        return self.found

    def _weaken(self, words: Any, fresh: float, *, progress: bool) -> tuple[float, float]:
        s, weights = self.settings, super()._weaken(words, fresh, progress=progress)
        if progress:
            self.notes.append(f"a tool has just brought news: a repeat counts {s.progress:g}")
        if len(words) < s.short:
            self.notes.append(f"fewer than {s.short} words: it counts {s.short_weight:g}")
        if stale := ramp(fresh, s.fresh_low, s.fresh_high):
            self.notes.append(
                f"{fresh:.0%} of its content words are new: a paraphrase counts {1 - stale:.2g}"
            )
        return weights

    def _is_answer(self, speaker: str | None, words: int) -> bool:
        found = super()._is_answer(speaker, words)
        if found:
            self.notes.append(
                f"a short answer to something new: a repeat counts {self.settings.reply:g}"
            )
        return found

    def _tells_apart(self, words: Any, substitutions: Any) -> bool:
        found = super()._tells_apart(words, substitutions)
        if found:
            self.apart.append("a word has its opposite in an earlier message, as steps of a puzzle")
        return found

    def _strip_boilerplate(self, words: Any, copies: Any, fresh: float) -> Any:
        rest = super()._strip_boilerplate(words, copies, fresh)
        if rest is not words:
            self.apart.append("what recurs is boilerplate around new text, and was left out")
        return rest

    def _score_repeat(self, alike: Any, weight: float, size: int, reply: float = 1.0) -> Any:
        self.raw = strongest(self.raw, super()._score_repeat(alike, 1.0, size))
        return super()._score_repeat(alike, weight, size, reply)

    def _score_frame(self, words: Any, weight: float) -> Any:
        self.raw = strongest(self.raw, super()._score_frame(words, 1.0))
        return super()._score_frame(words, weight)

    def _score_paraphrase(self, near: Any, size: int, weight: float) -> Any:
        self.raw = strongest(self.raw, super()._score_paraphrase(near, size, 1.0))
        return super()._score_paraphrase(near, size, weight)


class TracedSteps(StepLog):
    """The memory of tool calls, with what the last one was compared with."""

    def add(self, number: int, call: Call) -> list[Repetition]:
        before = list(self._steps)
        self.found = super().add(number, call)
        step = self._steps[-1]
        self.of_tool = next((each for each in reversed(before) if each.tool == step.tool), None)
        alike = (each for each in reversed(before) if each.identity == step.identity)
        self.same, self.step = next(alike, None), step
        return self.found


class TracedStream(LoopStream):
    """The loop detector, with a description of each message in `rows`."""

    def __init__(self, settings: Loops, tools: Any, identities: Any) -> None:
        super().__init__(settings, tools, identities)
        self._texts = self._seen = TracedMemory(settings)
        self._classes = self._steps_seen = TracedSteps(identities)
        self._winding = WindingDown()

    def explain(self, turn: Turn, vector: Any) -> dict[str, Any]:
        """Take in the next message and describe what it is evidence of."""
        self._evidence, self._quiet = list[dict[str, Any]](), list[str]()
        self.update(turn, vector=vector)
        if not (has_text(turn) or turn.calls):
            is_result = role_of_turn(turn) in RESULT_ROLES
            self._quiet.append("a tool's result" if is_result else "no text and no tool call")
        sums = {name: self._describe_sum(each) for name, each in self._list_sums(turn)}
        return {
            "position": self.position,
            "speaker": turn.speaker or turn.role,
            "excerpt": _shorten(turn.text or ", ".join(call.name for call in turn.calls)),
            "evidence": self._evidence,
            "sums": {name: each for name, each in sums.items() if each["value"]},
            "quiet": self._quiet,
            "noticed": [each.as_dict() for each in self.loops if each.noticed == self.position],
            "inside": sorted({loop.kind for loop in self.going_on if loop.level == "verdict"}),
        }

    def _list_sums(self, turn: Turn) -> Iterator[tuple[str, Cusum]]:
        yield from (("repeat", self._repeats_sum), ("courtesy", self._courtesy_sum))
        yield from (("paraphrase", self._paraphrase_sum), ("reasoning", self._thought_sum))
        if turn.speaker in self._speaker_sums:
            yield "own", self._speaker_sums[turn.speaker]

    def _describe_sum(self, each: Cusum) -> dict[str, Any]:
        return {"value": round(each.value, 2), "needed": self.settings.on, "level": each.level}

    def _judge_text(self, message: SpokenMessage, speaker: str | None, *, is_user: bool) -> None:
        super()._judge_text(message, speaker, is_user=is_user)
        seen, drift = self._seen, self.settings.drift
        for rule in RULES:
            found = getattr(seen.found, rule)
            if found.strength > ROUNDING and (rule != "own" or found != seen.found.repeat):
                compared = sorted(self._text_positions[n] for n in found.near)
                self._add_evidence(rule, found.kind, found.strength, compared)
        best = strongest(*(getattr(seen.found, rule) for rule in RULES))
        self._quiet += dict.fromkeys(seen.apart)
        if seen.raw.strength > best.strength + ROUNDING:
            near = ", ".join(str(n) for n in sorted(self._text_positions[n] for n in seen.raw.near))
            self._quiet.append(f"{seen.raw.strength:.2f} by its words (as in {near}), weakened")
            self._quiet += seen.notes
        elif best.strength <= ROUNDING:
            self._quiet.append("no earlier message is like it")
        elif best.strength <= drift + ROUNDING:
            self._quiet.append(f"a healthy message may have {drift:g}")
        if is_user:
            self._quiet.append("written by the user: not a loop of its speaker")

    def _is_answered_alike(self, text: str) -> bool:
        found = super()._is_answered_alike(text)
        if found:
            times = IDENTICAL_CALLS
            self._add_evidence("answers", "same message, same answer", times, [], needed=times)
        return found

    def _skim(self, message: SpokenMessage, speaker: str | None, *, may_repeat: bool) -> None:
        super()._skim(message, speaker, may_repeat=may_repeat)
        self._quiet.append(
            "it calls tools: its calls are compared, not its words"
            if may_repeat
            else "what the user of an agent types is not compared"
        )

    def _judge_ending(self, message: SpokenMessage, vector: Any) -> None:
        super()._judge_ending(message, vector)
        for level, each in (("verdict", self._winding.verdict), ("notice", self._winding.notice)):
            if each.value > ROUNDING:
                needed = (
                    self._winding.settings.on
                    if level == "verdict"
                    else (self._winding.settings.notice)
                )
                self._add_evidence("ending", level, each.value, [], needed=needed)

    def judge_call(self, call: Call, position: int) -> None:
        if self._tools.get(call.name, 0) is None:
            self._quiet.append(f"calls of {call.name} are ignored")
        super().judge_call(call, position)

    def _judge_step(self, call: Call, position: int, identical: int) -> None:
        known = len(self._call_positions)
        super()._judge_step(call, position, identical)
        if len(self._call_positions) == known:
            self._quiet.append(f"{call.name}: a twin of a call in the same message")
            return
        seen = self._steps_seen
        for found in seen.found:
            patience = PATIENCE[found.kind]
            needed = patience.verdict
            if found.kind == "tool" and needed:
                needed = identical
            compared = sorted(self._call_positions[n] for n in found.near)
            self._add_evidence("calls", found.kind, found.times, compared, needed=needed)
            if needed is None:
                self._quiet.append(f"{call.name}: waiting is a notice at most")
        if not seen.found:
            self._quiet.append(f"{call.name}: {self._compare_step()}")

    def _compare_step(self) -> str:
        """Say why a call repeats nothing."""
        seen, at = self._steps_seen, self._call_positions
        if seen.same is not None:
            is_new = seen.same.result != seen.step.result
            changed = "another result" if is_new else "work in between"
            return f"the same call as in message {at[seen.same.number]}, with {changed}"
        if seen.of_tool is not None:
            return f"not the call of message {at[seen.of_tool.number]}: other arguments"
        return "the first call of its kind"

    def _add_evidence(
        self,
        rule: str,
        kind: str,
        strength: float,
        compared: list[int],
        needed: float | None = None,
    ) -> None:
        row = {"rule": rule, "kind": kind, "strength": round(strength, 2), "compared": compared}
        self._evidence.append(row | ({} if needed is None else {"needed": needed}))


def explain(  # noqa: PLR0913 - its settings
    conversation: "Conversation",
    *,
    message: int | None = None,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    vectors: bool = True,
    loops: Loops = LOOPS,
    encoder: "Encoder | None" = None,
    tools: Tools | None = None,
) -> dict[str, Any]:
    """Say what each message of a conversation is evidence of, or one of them.

    The result has the verdict and a list `messages`. Each has the `evidence` by rule, with the
    positions of the messages it was `compared` with; the `sums` of evidence so far, and what a loop
    needs; and under `quiet`, which rules kept it quiet.

    >>> found = explain(["What now?", "Let me check.", "All is well.", "Let me check."],
    ...                 vectors=False)
    >>> found["messages"][3]["evidence"][0]["compared"], found["messages"][3]["quiet"][-1]
    ([2], 'fewer than 4 words: it counts 0.75')
    """
    from chimeralab.detection.judging import Judge, drop_vectors  # noqa: PLC0415 - both ways

    talk = parse_conversation(conversation)
    if message is not None and not (isinstance(message, int) and 1 <= message <= len(talk.turns)):
        raise InputError(f"there is no message {message!r}; {talk.id} has 1 to {len(talk.turns)}")
    detector = detector if vectors else drop_vectors(detector)
    judge = Judge(
        detector, loops, (lambda: encoder) if encoder else None,
        speaker=speaker, trace=True, tools=tools,
    )  # fmt: skip
    [(talk, verdict)] = judge.judge([talk])
    [[(_, positions, _, found, _)]] = encode_batches([talk], judge.encoder, speaker=speaker)
    known = dict(zip(positions, found, strict=False)) if judge.encoder else {}
    stream = TracedStream(loops, *read_rules(tools))
    rows = [stream.explain(turn, known.get(n)) for n, turn in enumerate(talk.turns, start=1)]
    for row in rows:
        row.update(explain_rule(verdict, row["position"], detector))
    return {
        "id": talk.id,
        "verdict": repr(verdict).removeprefix("<Detection ").removesuffix(">"),
        "looping": verdict.looping,
        "loops": [loop.as_dict() for loop in verdict.loops],
        "messages": rows if message is None else [rows[message - 1]],
        "settings": verdict.loop_detector,
    }


def explain_rule(verdict: Detection, position: int, detector: Detector | None) -> Mapping[str, Any]:
    """What the locked rule measured at a message, if it judged it."""
    trace = next((each for each in verdict.trace or () if each.position == position), None)
    if trace is None or not isinstance(detector, LockedRule):
        return {}
    row = {"turn": trace.turn, "s1": trace.s1, "s2": trace.s2, "run": trace.run}
    return {"locked": {**row, "collapsed": trace.collapsed, "needs": detector.as_dict()}}


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= EXCERPT else f"{flat[: EXCERPT - 1]}…"
