"""How well the winding-down channel finds endings, alone and together with the loop detector.

Each half of the logs is judged with weights fitted to the other half. The heads have learned made
sentences only, but their author had read endings of set 1, and the thresholds, which are the same
for both halves, were chosen among about 90 configurations with both in view: numbers on set 1 are
optimistic. The closing lines are held-out patterns of the grammar that the heads learned from.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

from benchmarks.validity.loop_rules import by_loops
from benchmarks.validity.winding_head import Measured, development_cases, fit_weights, measure
from benchmarks.validity.winding_logs import Case, closings
from chimeralab.detection.winding import VECTOR_FEATURES, Weights, WindingDown
from chimeralab.embedding.encoder import default_encoder

LINES = (2, 4, 6, 8, 12)
ENDING = "farewell"
HEALTHY = ("set 1", "selfchats", "tau-bench", "dialogues", "zoo")


class Report(NamedTuple):
    """What is reported of a talk: positions from 1 of the onset and of the report."""

    began: int
    noticed: int


class Outcome(NamedTuple):
    """The first verdict and the first notice of a case, None where there is none."""

    case: Case
    verdict: Report | None
    notice: Report | None


def main() -> None:
    encoder = default_encoder()
    cases = development_cases()
    measured = [measure(case, encoder) for case in cases]
    weights = fit_halves(measured)
    outcomes = [judge(each, weights) for each in measured]
    report_endings(outcomes)
    report_false_alarms(outcomes)
    blanked = [judge(measure(c, encoder, blank=True), weights) for c in cases if not c.stuck]
    report_blanked(outcomes, blanked)
    words = [judge(without_vectors(each), weights) for each in measured]
    report_words(words)
    report_together(outcomes)
    hosts = [case for case in cases if not case.stuck and case.group in HEALTHY[:4]]
    for group in ("set 1", "tau-bench", "dialogues"):
        mine = [case for case in hosts if case.group == group]
        closed = chain.from_iterable(closings(mine, lines) for lines in LINES)
        report_closings(group, [judge(measure(case, encoder), weights) for case in closed])


def fit_halves(measured: Sequence[Measured]) -> dict[int, Weights]:
    """By half, the weights that were fitted to the other one."""
    return {
        half: fit_weights([each for each in measured if each[0].half != half]) for half in (0, 1)
    }


def judge(measured: Measured, weights: Mapping[int, Weights]) -> Outcome:
    case, messages = measured
    stream, verdict, notice = WindingDown(weights=weights[case.half]), None, None
    positions = [position for position, _, _ in messages]
    for stream.number, (position, news, features) in enumerate(messages, start=1):
        stream.judge(features, news)
        if stream.verdict.on and verdict is None:
            verdict = Report(positions[stream.verdict.began - 1], position)
        if stream.level and notice is None:
            notice = Report(positions[stream.began - 1], position)
    return Outcome(case, verdict, notice)


def without_vectors(measured: Measured) -> Measured:
    case, messages = measured
    names = set(VECTOR_FEATURES) - {"empty"}
    words = [(p, news, {n: features[n] for n in names}) for p, news, features in messages]
    return case, words


# Tables


def report_endings(outcomes: Sequence[Outcome]) -> None:
    endings = [each for each in outcomes if each.case.group == "set 1" and is_ending(each)]
    found = [each for each in endings if each.verdict]
    print(f"endings of set 1: {len(found)} of {len(endings)} found")
    onsets = [each.case.log.spans[0][0] for each in found]
    late = [o.verdict.noticed - onset for o, onset in zip(found, onsets, strict=True) if o.verdict]
    off = [abs(o.verdict.began - n) for o, n in zip(found, onsets, strict=True) if o.verdict]
    early = [o.notice.noticed - o.case.log.spans[0][0] for o in endings if o.notice]
    print(f"verdict after {median(late):g} messages {sorted(late)}, onset error {median(off):g}")
    print(f"first notice after {median(early):g} messages {sorted(early)}")
    for each in endings:
        if not each.verdict:
            print(f"missed: {each.case.log.host}")


def is_ending(outcome: Outcome) -> bool:
    return outcome.case.kind == ENDING


def report_false_alarms(outcomes: Sequence[Outcome]) -> None:
    print("\n| healthy | talks | verdicts | notices |\n|---|---|---|---|")
    healthy = [each for each in outcomes if not each.case.stuck]
    for group in HEALTHY:
        mine = [each for each in healthy if each.case.group == group]
        counts = sum(o.verdict is not None for o in mine), sum(o.notice is not None for o in mine)
        print(f"| {group} | {len(mine)} | {counts[0]} | {counts[1]} |")
    false = [each for each in healthy if each.verdict]
    print(f"\nverdicts: {len(false)} of {len(healthy)} ({len(false) / len(healthy):.2%})")
    for each in false:
        print(f"false: {each.case.log.talk.id} ({each.case.log.group}), {each.verdict}")


def report_blanked(outcomes: Sequence[Outcome], blanked: Sequence[Outcome]) -> None:
    """Whether alarms on healthy talks change without question marks and digits."""
    before = {each.case.log.talk.id for each in outcomes if not each.case.stuck and each.verdict}
    after = {each.case.log.talk.id for each in blanked if each.verdict}
    print(f"\nblanked: {len(after)} verdicts; new {sorted(after - before)}", end=", ")
    print(f"gone {sorted(before - after)}")


def report_words(outcomes: Sequence[Outcome]) -> None:
    endings = [each for each in outcomes if each.case.group == "set 1" and is_ending(each)]
    healthy = [each for each in outcomes if not each.case.stuck]
    verdicts = sum(each.verdict is not None for each in outcomes)
    noticed = sum(each.notice is not None for each in endings)
    false = sum(each.notice is not None for each in healthy)
    print(
        f"\nwithout vectors: {verdicts} verdicts, {noticed} of {len(endings)} endings noticed",
        end="",
    )
    print(f", notices in {false} of {len(healthy)} healthy talks")


def report_together(outcomes: Sequence[Outcome]) -> None:
    print("\n| set 1 | talks | loops | winding | together |\n|---|---|---|---|---|")
    kinds = defaultdict(list)
    delays = []
    for each in outcomes:
        if each.case.group != "set 1":
            continue
        alarm = by_loops(each.case.log.talk).on(each.case.log)
        kinds[each.case.kind].append((alarm is not None, each.verdict is not None))
        times = [x.noticed for x in (alarm, each.verdict) if x is not None]
        if times and each.case.stuck:
            delays.append(min(times) - each.case.log.spans[0][0])
    stuck = [pair for kind, pairs in kinds.items() if kind != "none" for pair in pairs]
    for kind, pairs in [*sorted(kinds.items()), ("all stuck", stuck)]:
        loops, winding = (sum(column) for column in zip(*pairs, strict=True))
        print(f"| {kind} | {len(pairs)} | {loops} | {winding} | {sum(map(any, pairs))} |")
    print(f"\nverdict of either after {median(delays):g} messages")


def report_closings(group: str, outcomes: Sequence[Outcome]) -> None:
    print(f"\n| {group}, closing courtesy | talks | verdicts | notices |\n|---|---|---|---|")
    for lines in LINES:
        mine = [each for each in outcomes if each.case.group == f"{lines} closing lines"]
        counts = sum(o.verdict is not None for o in mine), sum(o.notice is not None for o in mine)
        print(f"| {lines} | {len(mine)} | {counts[0]} | {counts[1]} |")


if __name__ == "__main__":
    main()
