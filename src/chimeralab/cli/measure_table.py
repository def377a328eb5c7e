"""The tables that `chimera measure` prints: each number, its interval, and what it means."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.groups_table import groups_table
from chimeralab.cli.terminal import percent
from chimeralab.sandbox.metrics import PARTS, Metrics
from chimeralab.stats.intervals import FEWEST_CLUSTERS, Interval

MEANINGS = {
    "mci": "memory coherence; these trials allow at most {all.mci.ceiling:.3f}",
    "mci.rf": "recall fidelity: {share} of the trials are right",
    "mci.ci": "continuity: confidence moves by {rest:.2f} from trial to trial",
    "mci.cb": "context binding: right answers, weighted by the context they need",
    "gfq": "generalization fidelity, on novel trials",
    "gfq.ta": "task accuracy: {share} of the novel trials are right",
    "gfq.cta": "agreement: mean confidence that went into right answers",
    "dfs": "decision frame stability",
    "dfs.fi": "invariance: wording moves an answer by {rest:.2f} ({all.dfs.pairs:,} pairs)",
    "dfs.br": "resistance: error under bias, spread over all {all.dfs.trials:,} trials",
    "cb_normalised": "share of the context weight that was earned",
    "ece": "mean gap between confidence and accuracy; 0 is calibrated",
    "brier": "squared miss of confidence; 0 is perfect, always saying 0.5 gives 0.25",
    "auroc": "chance that a right answer was held with more confidence than a wrong one",
    "brier_novel": "the Brier score on novel trials",
    "auroc_novel": "the AUROC of confidence on novel trials",
    "generalisation_gap": "accuracy on familiar trials minus accuracy on novel ones",
    "br_biased_only": "resistance without the neutral trials, which dilute it",
    "toward_signal_rate": "share of misleading signals that were followed",
}
A_CLUSTER = "A cluster is a scenario, else a session."


class Line(NamedTuple):
    """A number in the table, under the name that its meaning and its reason go by."""

    label: str
    name: str
    value: float | None
    interval: Interval | None


def print_metrics(console: Console, metrics: Metrics) -> None:
    """All numbers of one set of trials, then what to know about them."""
    console.print(f"{_count(metrics.sessions, 'session')}, {_count(metrics.trials, 'trial')}\n")
    table = _table()
    for line in _lines(metrics):
        table.add_row(
            line.label, _number(line.value), _between(line.interval), _meaning(line, metrics)
        )
    console.print(table)
    console.print()
    for note in _notes(metrics):
        console.print(note, style="dim", soft_wrap=True)


def print_groups(console: Console, by: str, groups: Mapping[str, Metrics]) -> None:
    """The three metrics of each group."""
    console.print()
    console.print(groups_table(by, groups, console.width))


def _lines(metrics: Metrics) -> Iterator[Line]:
    """The three metrics with their parts, and the companions that are defined."""
    for metric, parts in PARTS.items():
        found = getattr(metrics, metric)
        yield Line(metric.upper(), metric, found.value, found.interval)
        for part in parts:
            drawn = found.part_intervals[part]
            yield Line(f"  {part.upper()}", f"{metric}.{part}", getattr(found, part), drawn)
    for name, drawn in metrics.companions.interval.items():
        value = getattr(metrics.companions, name)
        if value is not None:
            yield Line(name, name, value, drawn)


def _meaning(line: Line, metrics: Metrics) -> Text:
    if line.value is None:
        return Text(f"undefined: {metrics.undefined[line.name]}", style="dim")
    share, rest = percent(line.value), 1 - line.value
    return Text(MEANINGS[line.name].format(share=share, rest=rest, all=metrics))


def _notes(metrics: Metrics) -> Iterator[str]:
    for name in ("correct", "confidence"):
        stated = getattr(metrics.coverage, name)
        if 0 < stated < metrics.trials:
            yield f"{name}: stated in {stated:,} of {metrics.trials:,} trials, the rest left out."
    yield from _pair_notes(metrics)
    yield from (f"{note}." for note in metrics.notes)
    yield _interval_note(metrics)


def _pair_notes(metrics: Metrics) -> Iterator[str]:
    dfs, companions = metrics.dfs, metrics.companions
    if companions.mcnemar_b is not None:
        p = companions.mcnemar_p
        yield (
            f"Pairs right only when neutral: {companions.mcnemar_b}; only when biased:"
            f" {companions.mcnemar_c}{'' if p is None else f' (exact McNemar p {p:.3g})'}."
        )
    if dfs.unpaired:
        yield f"Halves without the other half of their pair: {dfs.unpaired}."
    if dfs.unanswered:
        yield f"Pairs without both answers: {dfs.unanswered}."


def _interval_note(metrics: Metrics) -> str:
    if not metrics.resamples:
        return "No intervals: no resamples were asked for."
    sessions, trials = metrics.clusters["sessions"], metrics.clusters["trials"]
    fewest = min(sessions, trials)
    few = " With so few they come out too narrow." if fewest < FEWEST_CLUSTERS else ""
    if max(sessions, trials) <= 1:
        return f"No intervals: one cluster has none. {A_CLUSTER}"
    alone = " One cluster has no interval." if fewest == 1 else ""
    return (
        f"Intervals of MCI and GFQ: {metrics.resamples:,} resamples of"
        f" {_count(sessions, 'cluster')}; of the others: {_count(trials, 'cluster')}."
        f" {A_CLUSTER}{alone}{few}"
    )


def _table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("value", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it says")
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
