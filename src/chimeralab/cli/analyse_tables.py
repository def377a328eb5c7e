"""The tables that `chimera analyse` and `chimera compare` print."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from chimeralab.analysis.selfplay.analysis import Analysis, shown_interval, shown_p
from chimeralab.analysis.selfplay.comparisons import Comparison
from chimeralab.analysis.selfplay.replication import Replication
from chimeralab.analysis.selfplay.robustness import CoDetector
from chimeralab.cli.terminal import plain

LEGEND = (
    "ratio: the standard error of an analysis that takes runs for independent, over the clustered "
    "one. naive p: what that analysis would say. perm. p: sides exchanged within prompts. RMST: "
    "mean turns to the first collapse, up to the horizon."
)


def shares(analysis: Analysis) -> Table:
    """How much collapses, by condition, with three intervals."""
    level = f"{100 * analysis.settings.level:g} %"
    headings = ("runs", "mean", "median", "SD", f"{level} t", "bootstrap", "bootstrap-t")
    table = _table("Share of collapsed turns, %", "condition", headings)
    for name in analysis.rank_stability.order:
        part = analysis.conditions[name]
        intervals = (part.cluster_ci, part.bootstrap_ci, part.bootstrap_t_ci)
        table.add_row(
            _text(name),
            str(part.n),
            _number(part.mean, 1, 100),
            _number(part.median, 1, 100),
            _number(part.sd, 1, 100),
            *(shown_interval(interval, 1, 100) for interval in intervals),
        )
    return table


def first_collapses(analysis: Analysis) -> Table:
    """How often and how soon, by condition, and how alike repeats are."""
    tau = f"RMST({analysis.settings.tau:g})"
    headings = ("ever, %", "interval", "median", tau, "interval", "ICC", "ratio")
    table = _table("First collapse, in turns", "condition", headings)
    for name in analysis.rank_stability.order:
        part = analysis.conditions[name]
        table.add_row(
            _text(name),
            _number(part.incidence, 1, 100),
            shown_interval(part.incidence_ci, 1, 100),
            _number(part.km_median, 0),
            _number(part.rmst, 1),
            shown_interval(part.rmst_ci, 1),
            _number(part.icc, 2),
            _number(part.se_ratio, 2),
        )
    return table


def comparisons(title: str, found: Sequence[Comparison], digits: int = 3) -> Table:
    """Differences over prompts, every p beside the naive one and the ratio of errors."""
    headings = ("diff.", "interval", "Holm p", "perm. p", "naive p", "ratio")
    table = _table(title, "a − b", headings)
    for each in found:
        table.add_row(
            _text(f"{each.a} − {each.b}"),
            _number(each.difference, digits),
            shown_interval(each.ci, digits),
            shown_p(each.p_holm),
            shown_p(each.permutation_p),
            shown_p(each.naive_p),
            _number(each.se_ratio, 2),
        )
    return table


def recoveries(analysis: Analysis) -> Table:
    """What becomes of runs after their first collapse."""
    headings = ("collapsed", "came out", "%", "interval", "later turns, %", "dwell")
    table = _table("After the first collapse", "condition", headings)
    for name in analysis.rank_stability.order:
        part = analysis.after_onset[name]
        table.add_row(
            _text(name),
            str(part.collapsed_runs),
            str(part.recovered_runs),
            _number(part.recovered_share, 1, 100),
            shown_interval(part.recovered_ci, 1, 100),
            _number(part.dwell_share, 1, 100),
            _number(part.dwell_median, 0),
        )
    return table


def changes(found: Replication) -> Table:
    """Each difference between two conditions in both tables, and how far it moved."""
    headings = ("in A", "in B", "moved", "interval", "Holm p", "naive p", "ratio", "sign")
    table = _table("Difference in the share of collapsed turns, in A and in B", "pair", headings)
    for each in found.pairs:
        table.add_row(
            _text(f"{each.first} − {each.second}"),
            _number(each.in_a.difference, 3),
            _number(each.in_b.difference, 3),
            _number(each.moved.difference, 3),
            shown_interval(each.moved.ci, 3),
            shown_p(each.moved.p_holm),
            shown_p(each.moved.naive_p),
            _number(each.moved.se_ratio, 2),
            {True: "same", False: "OTHER", None: "–"}[each.same_direction],
        )
    return table


def co_detectors(found: Sequence[CoDetector]) -> Table:
    """The words alone beside the embedding."""
    headings = ("talks", "correlation", "both", "words only", "embedding only", "neither")
    table = _table("Collapse by words alone, beside the embedding", "measure", headings)
    for each in found:
        counts = (each.both, each.only_lexical, each.only_embedding, each.neither)
        shown = ("–" if count is None else str(count) for count in counts)
        name = each.name.replace("_", " ")
        table.add_row(name, str(each.conversations), _number(each.correlation, 2), *shown)
    return table


def why_missing(analysis: Analysis) -> Iterable[str]:
    """The reasons behind the dashes of the tables, each once."""
    reasons = [(name, part.reasons) for name, part in analysis.conditions.items()]
    reasons += [
        (f"{each.a} − {each.b}", each.reasons)
        for measure in analysis.measures.values()
        for each in (*measure.pairs, *measure.weighted)
    ]
    return dict.fromkeys(f"– {name}: {why}" for name, found in reasons for why in found.values())


def _table(title: str, first: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _text(name: str) -> Text:
    return Text(plain(name))


def _number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "–" if value is None else f"{scale * value:.{digits}f}"
