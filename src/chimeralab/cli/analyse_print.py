"""What `chimera analyse` and `chimera compare` tell a person: tables, then a reading in words."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from chimeralab.analysis.selfplay.analysis import Analysis, sentences
from chimeralab.analysis.selfplay.outcomes import Measure
from chimeralab.analysis.selfplay.replication import Replication
from chimeralab.analysis.selfplay.robustness import DetectorRobustness
from chimeralab.analysis.selfplay.specifications import SpecificationCurve
from chimeralab.cli import analyse_tables as tables
from chimeralab.cli.terminal import out, plain

COMPARED: tuple[tuple[str, Measure, int], ...] = (
    ("Difference in the share of collapsed turns", "share", 3),
    ("Difference in mean turns to the first collapse (RMST)", "restricted_mean", 1),
    ("Difference in the share of runs that ever collapse", "incidence", 3),
)


def print_analysis(analysis: Analysis) -> None:
    """The tables, then what they say, then what to know before quoting them."""
    _tables(tables.shares(analysis), tables.first_collapses(analysis))
    for title, measure, digits in COMPARED if analysis.contrasts else ():
        found = analysis.measures[measure]
        _tables(tables.comparisons(title, (*found.pairs, *found.weighted), digits))
    _tables(tables.recoveries(analysis))
    _lines([*sentences(analysis), ""])
    left = [
        f"left out of {part.condition}: {part.runs}, {part.reason}" for part in analysis.left_out
    ]
    _lines([*left, *analysis.notes, *tables.why_missing(analysis), tables.LEGEND], style="dim")


def print_robustness(found: DetectorRobustness) -> None:
    """The specification curves in a line each, and the co-detectors."""
    _lines(["", *(_curve_line(curve) for curve in found.curves), ""])
    _tables(tables.co_detectors(found.co_detectors))


def print_replication(found: Replication) -> None:
    """Two tables of runs side by side."""
    shares = [measures["share"] for measures in found.conditions.values()]
    times = [measures["restricted_mean"] for measures in found.conditions.values()]
    _tables(
        tables.comparisons("Share of collapsed turns", shares),
        tables.comparisons("Mean turns to the first collapse (RMST)", times, 1),
    )
    if found.pairs:
        _tables(tables.changes(found))
    same = "the same" if found.order_a == found.order_b else "not the same"
    orders = (" > ".join(order) for order in (found.order_a, found.order_b))
    alone = ((found.a, found.only_in_a), (found.b, found.only_in_b))
    missing = (f"only in {table}: {', '.join(names)}" for table, names in alone if names)
    _lines([f"The order of the conditions is {same}: {' | '.join(orders)}.", ""])
    _lines([*found.notes, *missing, tables.LEGEND], style="dim")


def _curve_line(curve: SpecificationCurve) -> str:
    if curve.declared is None or curve.lowest is None or curve.highest is None:
        return f"{curve.a} − {curve.b}: no estimate with the declared detector."
    return (
        f"{curve.a} − {curve.b}: {curve.declared:+.3f} as declared; {curve.lowest:+.3f} to "
        f"{curve.highest:+.3f} over {curve.distinct_detectors} detectors with "
        f"{curve.distinct_outcomes} outcomes; {curve.same_sign} agree on the direction, "
        f"{curve.significant} of them with an interval that leaves out 0."
    )


def _tables(*parts: Table) -> None:
    for part in parts:
        out.print(part)
        out.print()


def _lines(lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        out.print(Text(plain(line)), style=style, soft_wrap=True)
