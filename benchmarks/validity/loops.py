"""How well the loop detector finds loops, compared with other rules and with length alone.

The zoo is reported on odd seeds; even ones were used to choose among about 100 configurations.

    python -m benchmarks.validity.loops                    everything
    python -m benchmarks.validity.loops --only zoo,onsets  these parts, which are in `PARTS`
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.table import Result, keep
from benchmarks.validity.loop_logs import (
    EVEN,
    NOTICE_ONLY,
    ODD,
    OPEN,
    Log,
    labelled,
    rated,
    unlabelled_sessions,
    zoo,
)
from benchmarks.validity.loop_rules import (
    PEERS,
    TERMS,
    Judged,
    Rule,
    by_loops,
    length_of,
    locked,
    longer_than,
    without,
)
from benchmarks.validity.loop_zoo import available
from chimeralab import Call, Turn
from chimeralab.detection.loops import LoopStream

COMMAND = "python -m benchmarks.validity.loops"
CORES = 2
RESAMPLES = 1000
ABLATED = ODD[:500]
CALM = "dialogue-eval, verdicts where people saw no repetition"
SAMPLED = ODD[:80]  # what the locked detector is tried on: it needs vectors


class Row(NamedTuple):
    """One conversation with what a rule says of it; without its text."""

    log: Log
    judged: Judged

    def found(self, notices: bool = False) -> bool:
        return self.judged.on(self.log, notices=notices) is not None

    @property
    def kind(self) -> str:
        return self.log.group.split("/")[0]

    @property
    def is_open(self) -> bool:
        return bool({self.kind, self.log.group} & OPEN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parts = parser.parse_args().only.split(",")
    if unknown := set(parts) - {*PARTS}:
        parser.error(f"--only {unknown.pop()}: no such part; there are: {', '.join(PARTS)}")
    if not available():
        print("the public conversations are not at hand")
        return
    with ProcessPoolExecutor(CORES) as pool:
        for part in parts:
            PARTS[part](pool)


def _judged_zoo(pool: ProcessPoolExecutor, rule: Rule, seeds: range) -> list[Row]:
    parts = [seeds[start : start + 100] for start in range(0, len(seeds), 100)]
    return [row for part in pool.map(partial(_judge, rule), parts) for row in part]


def _judge(rule: Rule, seeds: Iterable[int]) -> list[Row]:
    return [_lean(log, rule(log.talk)) for seed in seeds for log in zoo(seed)]


def _lean(log: Log, judged: Judged) -> Row:
    """Without the text, which nobody needs any more."""
    return Row(log._replace(talk=log.talk.id), judged)  # type: ignore[arg-type]


# The zoo


def report_zoo(pool: ProcessPoolExecutor) -> None:
    rows = _judged_zoo(pool, by_loops, ODD)
    stuck, healthy = [r for r in rows if r.log.stuck], [r for r in rows if not r.log.stuck]
    judged = [row for row in stuck if row.kind not in NOTICE_ONLY]
    closed = [row for row in judged if not row.is_open]
    tools = [row for row in judged if row.kind.startswith("tool-")]
    waiting = [row for row in healthy if row.kind in ("polling", "paging")]
    print(f"\n## Zoo, odd seeds: {len(stuck)} stuck and {len(healthy)} healthy talks\n")
    by_kind = _table("kind of loop", judged, lambda row: row.log.group, OPEN)
    _table("period", judged, lambda row: str(row.log.period))
    false = _table("kind of healthy talk", healthy, lambda row: row.log.group)
    early = sum(
        any(a.level == "verdict" and (a.ended or a.noticed) < row.log.spans[0][0] for a in alarms)
        for row in stuck
        for alarms in [row.judged.alarms]
    )
    print(f"\nalarms before the loop began, in stuck talks: {early} of {len(stuck)}")
    delays, errors = _timing(judged)
    print(f"delay: median {median(delays)} messages, onset error: median {median(errors)}")
    right = [_right_kind(row) for row in judged if row.found()]
    print(f"kind named as the zoo names it: {sum(right) / len(right):.3f}")
    _paraphrases(stuck, healthy)
    recall, false_alarms = _share(judged), _share(healthy)
    worst = max(false, key=lambda kind: false[kind])
    missed = ", ".join(sorted(k for k, share in by_kind.items() if share < 0.9))
    _bar("zoo recall", recall, ">= 0.90", recall.mean >= 0.9, f"all kinds; below 0.9: {missed}")
    recall = _share(closed)
    names = ", ".join(sorted(OPEN))
    _bar("zoo recall without open kinds", recall, ">= 0.90", recall.mean >= 0.9, f"open: {names}")
    met = false_alarms.mean <= 0.015
    _bar("zoo false alarms", false_alarms, "<= 0.015", met, f"{len(healthy)} healthy talks")
    met = false[worst] <= 0.03
    _keep("zoo false alarms, worst kind", f"{false[worst]:.3f}", "<= 0.03", met, worst)
    recall = _share(tools)
    _bar("zoo recall of tool loops", recall, ">= 0.97", recall.mean >= 0.97, f"{len(tools)} talks")
    alarms = sum(row.found() for row in waiting)
    note = f"{len(waiting)} talks"
    _keep("zoo alarms on polling and paging", str(alarms), "0", alarms == 0, note)


def _table(
    title: str, rows: Sequence[Row], key: Callable[[Row], str], marked: frozenset[str] = frozenset()
) -> dict[str, float]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    print(f"\n| {title} | talks | alarms | 95 % interval |\n|---|---|---|---|")
    for name in sorted(groups):
        mark = " (open)" if {name, name.split("/")[0]} & marked else ""
        found = _share(groups[name])
        print(f"| {name}{mark} | {len(groups[name])} | {found.mean:.3f} | {found.interval} |")
    return {name: _share(each).mean for name, each in groups.items()}


def _timing(rows: Iterable[Row], notices: bool = False) -> tuple[list[int], list[int]]:
    """Messages from the earliest onset to the alarm, and from the nearest one to its beginning."""
    delays, errors = [], []
    for row in rows:
        alarm = row.judged.on(row.log, notices=notices)
        if alarm is not None:
            onsets = [first for first, _ in row.log.spans]
            delays.append(alarm.noticed - min(onsets))
            errors.append(min(abs((alarm.began or alarm.noticed) - onset) for onset in onsets))
    return delays, errors


NAMES = {
    "verbatim": {"verbatim"},
    "noisy": {"verbatim", "template"},
    "cycle": {"alternating", "cycle"},
    "noisy-cycle": {"alternating", "cycle", "template"},
    "interrupted": {"verbatim"},
    "one-sided": {"alternating", "template"},
    "template": {"template"},
    "apology": {"template"},
    "farewell": {"farewell"},
    "praise": {"farewell"},
    "emoji": {"farewell", "verbatim", "template"},
    "foreign-courtesy": {"farewell"},
    "within": {"within-turn"},
    "foreign": {"verbatim", "alternating", "cycle", "template"},
}


def _right_kind(row: Row) -> bool:
    alarm = row.judged.on(row.log)
    return alarm is not None and alarm.kind in NAMES.get(row.kind, {"tool"})


def _paraphrases(stuck: Sequence[Row], healthy: Sequence[Row]) -> None:
    reworded = [row for row in stuck if row.kind in NOTICE_ONLY]
    _table("reworded, verdicts", reworded, lambda row: row.log.group)
    found = _share(reworded, notices=True)
    told = [row for row in (*stuck, *healthy) if _notices_rewording(row)]
    true = sum(row.log.stuck for row in told)
    false = sum(_notices_rewording(row) for row in healthy)
    note = (
        f"verdicts {_share(reworded).mean:.3f}; {true} of {len(told)} paraphrase notices in stuck"
        f" talks (precision {true / len(told):.3f}), {false} of {len(healthy)} healthy talks"
    )
    _bar("zoo paraphrase, notices", found, "reported", True, note)


def _notices_rewording(row: Row) -> bool:
    return any((a.level, a.kind) == ("notice", "paraphrase") for a in row.judged.alarms)


# Real logs


def report_labelled(_: ProcessPoolExecutor) -> None:
    print("\n## Labelled logs\n")
    rows = [_lean(log, by_loops(log.talk)) for log in labelled()]
    _keep("labelled logs, verdicts", *_found(rows, False, 22), _misses(rows))
    _keep("labelled logs, verdicts and notices", *_found(rows, True, 24))
    stuck = [row for row in rows if row.log.stuck]
    off = median(_timing(stuck)[1])
    _keep("labelled logs, onset error", f"{off:g} messages", "<= 2", off <= 2, "median, verdicts")
    for name, notices in (("verdict", False), ("verdict or notice", True)):
        late = median(_timing(stuck, notices)[0])
        _keep(
            f"labelled logs, delay to the {name}", f"{late:g} messages", "<= 6", late <= 6, "median"
        )


def _found(rows: Sequence[Row], notices: bool, enough: int) -> tuple[str, str, bool]:
    hits = sum(row.found(notices) for row in rows if row.log.stuck)
    false = sum(row.found(notices) for row in rows if not row.log.stuck)
    bar = f">= {enough} of 26" + ("" if notices else ", <= 1 of 32 false")
    return f"{hits} of 26, {false} of 32 false", bar, hits >= enough and (notices or false <= 1)


def _misses(rows: Sequence[Row]) -> str:
    wrong = [row.log.host for row in rows if row.found() != row.log.stuck]
    return "wrong: " + ", ".join(name.split("/")[-1] for name in wrong)


def report_sessions(_: ProcessPoolExecutor) -> None:
    print("\n## tau-bench, unlabelled sessions\n")
    alarms = [(n, a) for n, talk in unlabelled_sessions() for a in by_loops(talk).alarms]
    for index, alarm in alarms:
        print(f"{index}: {alarm.level} {alarm.kind}, {alarm.stream}, from {alarm.began},", end=" ")
        print(f"noticed at {alarm.noticed}, ended {alarm.ended}")
    verdicts = {n for n, alarm in alarms if alarm.level == "verdict"}
    note = f"notices in {len({n for n, _ in alarms} - verdicts)} others"
    count = f"{len(verdicts)} of 164"
    _keep("tau-bench, sessions with a verdict", count, "<= 6", len(verdicts) <= 6, note)


def report_dialogues(pool: ProcessPoolExecutor) -> None:
    print("\n## dialogue-eval: repetitive (10 points or fewer) against not (80 or more)\n")
    truth = np.array([stuck for _, stuck in rated()])
    rules = {"loops": by_loops} | dict(PEERS) | {"length": longer_than(1)}
    print("| rule | AUC | alarms, repetitive | alarms, not |\n|---|---|---|---|")
    for (name, _), (scores, alarms) in zip(
        rules.items(), pool.map(_dialogues, rules.values()), strict=True
    ):
        area = _auc(scores, truth)
        rates = alarms[truth].mean(), alarms[~truth].mean()
        print(f"| {name} | {area:.3f} | {rates[0]:.3f} | {rates[1]:.3f} |")
        if name == "loops":
            rng = np.random.default_rng(1)
            places = rng.integers(0, len(truth), (300, len(truth)))
            low, high = np.quantile([_auc(scores[p], truth[p]) for p in places], (0.025, 0.975))
            note = f"95 % interval {low:.3f}-{high:.3f}; {len(truth)} dialogues"
            _keep("dialogue-eval AUC", f"{area:.3f}", ">= 0.88", area >= 0.88, note)
            count, calm = int(alarms[~truth].sum()), int((~truth).sum())
            note = f"by words; {rates[0]:.3f} of the repetitive ones"
            _keep(CALM, f"{count} of {calm}", "<= 2 %", count <= 0.02 * calm, note)


def _dialogues(rule: Rule) -> tuple["np.ndarray[tuple[int], np.dtype[np.float64]]", ...]:
    found = [rule(talk) for talk, _ in rated()]
    verdicts = [any(a.level == "verdict" for a in each.alarms) for each in found]
    return np.array([each.score for each in found]), np.array(verdicts, float)


def _auc(scores: "np.ndarray[tuple[int], np.dtype[np.float64]]", truth: object) -> float:
    """The chance that a stuck one scores above a healthy one, ties counting half."""
    stuck = np.asarray(truth, bool)
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    n = stuck.sum()
    return float((ranks[stuck].sum() - n * (n + 1) / 2) / (n * (len(stuck) - n)))


def report_onsets(_: ProcessPoolExecutor) -> None:
    """How soon the plainest loops are noticed."""
    news = ("Rain again all week.", "The cat sleeps on my desk.", "Prices rose in March.")
    call = Turn("", "assistant", spoken=False, calls=(Call("bash", "ls", "a.txt"),))
    cases = {
        "four words": ([Turn("Let me try again.")] * 9, 4),
        "one word": ([Turn("Yes.")] * 9, 6),
        "calls": ([call] * 9, 3),
        "A B A B": ([Turn(text) for text in news[:2]] * 6, 6),
        "A B C": ([Turn(text) for text in news] * 6, 9),
    }
    found = {}
    for name, (turns, _due) in cases.items():
        stream = LoopStream()
        for turn in turns:
            stream.update(turn)
        found[name] = next((x.noticed for x in stream.loops if x.level == "verdict"), 99)
    value = ", ".join(f"{name}: {at}" for name, at in found.items())
    bar = ", ".join(str(at) for _turns, at in cases.values())
    _keep(
        "plain loops noticed at",
        value,
        bar,
        all(found[n] <= at for n, (_turns, at) in cases.items()),
    )


# Comparison with other rules


def report_peers(pool: ProcessPoolExecutor) -> None:
    print("\n## Compared with other rules\n")
    print("| rule | zoo recall | without open kinds | tool loops | false | delay", end=" ")
    print("| labelled: found of 26, false of 32 | delay |\n|---|---|---|---|---|---|---|---|")
    ours = _judged_zoo(pool, by_loops, ODD)
    _peer("loops", ours, [Row(log, by_loops(log.talk)) for log in labelled()])
    for name, rule in PEERS.items():
        rows = _judged_zoo(pool, rule, ODD)
        _peer(name, rows, [Row(log, rule(log.talk)) for log in labelled()])
    talks = [log for seed in EVEN for log in zoo(seed)]
    by_length = longer_than(_best_length(talks))
    in_sample = longer_than(_best_length(labelled()))
    rows = [_lean(log, by_length(log.talk)) for seed in ODD for log in zoo(seed)]
    _peer("length alone", rows, [Row(log, in_sample(log.talk)) for log in labelled()])
    sample = [Row(log, locked(log.talk)) for seed in SAMPLED for log in zoo(seed)]
    there = [Row(log, locked(log.talk)) for log in labelled()]
    _peer(f"locked (zoo: first {len(SAMPLED)} pairs)", sample, there)


def _best_length(logs: Sequence[Log]) -> int:
    """The number of messages that tells stuck from healthy talks best; the middle one of several.

    Each stuck talk of the zoo has a healthy twin of its length, so that no number tells anything.
    """
    lengths = [length_of(log.talk) for log in logs]
    right = {
        least: sum(
            (length >= least) == log.stuck for length, log in zip(lengths, logs, strict=True)
        )
        for least in sorted(set(lengths))
    }
    best = [least for least, count in right.items() if count == max(right.values())]
    return best[len(best) // 2]


def _peer(name: str, rows: Sequence[Row], there: Sequence[Row]) -> None:
    judged = [row for row in rows if row.log.stuck and row.kind not in NOTICE_ONLY]
    closed = [row for row in judged if not row.is_open]
    tools = [row for row in judged if row.kind.startswith("tool-")]
    healthy = [row for row in rows if not row.log.stuck]
    stuck = [row for row in there if row.log.stuck]
    shares = " | ".join(f"{_share(each).mean:.3f}" for each in (judged, closed, tools, healthy))
    hits = sum(row.found() for row in stuck)
    false = sum(row.found() for row in there if not row.log.stuck)
    delays = _timing(judged)[0], _timing(stuck)[0]
    print(f"| {name} | {shares} | {median(delays[0]):g} |", end=" ")
    print(f"{hits}, {false} | {median(delays[1]):g} |", flush=True)


def report_ablation(pool: ProcessPoolExecutor) -> None:
    print(f"\n## Without a term (zoo: {len(ABLATED)} pairs of odd seeds)\n")
    print("| without | recall | false alarms | paraphrase noticed | healthy noticed", end=" ")
    print("| labelled: verdicts | with notices | dialogue-eval: repetitive, not", end=" ")
    print("| kinds that change |\n" + "|---" * 9 + "|")
    whole: dict[str, float] = {}
    for term, (rows, there, talks) in zip(TERMS, pool.map(_ablated, TERMS), strict=True):
        judged = [row for row in rows if row.log.stuck and row.kind not in NOTICE_ONLY]
        healthy = [row for row in rows if not row.log.stuck]
        reworded = [row for row in rows if row.kind in NOTICE_ONLY]
        shares = (_share(judged), _share(healthy), _share(reworded, True), _share(healthy, True))
        values = " | ".join(f"{share.mean:.3f}" for share in shares)
        counts = " | ".join(_found(there, notices, 0)[0] for notices in (False, True))
        groups = defaultdict(list)
        for row in rows:
            groups[("" if row.log.stuck else "healthy ") + row.log.group].append(row)
        now = {name: _share(each).mean for name, each in groups.items()}
        whole = whole or now
        moved = {name: now[name] - whole[name] for name in now}
        named = sorted(moved, key=lambda name: -abs(moved[name]))[:4]
        told = ", ".join(f"{name} {moved[name]:+.2f}" for name in named if moved[name])
        print(f"| {term} | {values} | {counts} | {talks} | {told} |", flush=True)


def _ablated(term: str) -> tuple[list[Row], list[Row], str]:
    made = [log for seed in ABLATED for log in zoo(seed)]
    rows = [_lean(*each) for each in zip(made, without(term, made), strict=True)]
    read = zip(labelled(), without(term, labelled()), strict=True)
    talks = [Log(talk, "", talk.id, ((1, 99),) * stuck) for talk, stuck in rated()][::3]
    found = [Row(*each) for each in zip(talks, without(term, talks), strict=True)]
    rates = [_share([r for r in found if r.log.stuck == stuck]).mean for stuck in (True, False)]
    return rows, [_lean(*each) for each in read], f"{rates[0]:.3f}, {rates[1]:.3f}"


# Numbers


class Share(NamedTuple):
    mean: float
    interval: str


def _share(rows: Sequence[Row], notices: bool = False) -> Share:
    """The share of talks with an alarm, with a bootstrap interval over their hosts."""
    hosts: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        hosts[row.log.host].append(row.found(notices))
    hits = np.array([sum(found) for found in hosts.values()], float)
    totals = np.array([len(found) for found in hosts.values()], float)
    draws = np.random.default_rng(1).integers(0, len(hits), (RESAMPLES, len(hits)))
    shares = hits[draws].sum(axis=1) / totals[draws].sum(axis=1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return Share(float(hits.sum() / totals.sum()), f"{low:.3f}-{high:.3f}")


def _bar(name: str, share: Share, bar: str, met: bool, note: str) -> None:
    _keep(name, f"{share.mean:.3f} ({share.interval})", bar, met, note)


def _keep(name: str, value: str, bar: str, met: bool, note: str = "") -> None:
    keep(Result(f"loops, {name}", value, bar, met, COMMAND, note))


PARTS: dict[str, Callable[[ProcessPoolExecutor], None]] = {
    "zoo": report_zoo,
    "labelled": report_labelled,
    "sessions": report_sessions,
    "dialogues": report_dialogues,
    "onsets": report_onsets,
    "peers": report_peers,
    "ablation": report_ablation,
}


if __name__ == "__main__":
    main()
