"""Figures of a trial: what each arm does to a measure, and what more of a stressor does."""

from collections.abc import Sequence

import altair as alt

from chimeralab.analysis.trial import ArmResult, SubjectResult
from chimeralab.report.canvas import Label, Row, data, layered
from chimeralab.report.charts import Chart
from chimeralab.report.charts_contrasts import Effect, forest
from chimeralab.report.theme import BLUE, WIDE

DOSE_HEIGHT = 240


def effect_forest(subject: SubjectResult, measure: str, width: int = WIDE) -> Chart | None:
    """The differences of every arm from the reference; None where there is none to draw."""
    known = [e for e in subject.contrasts if e.measure == measure and e.estimate is not None]
    if not known:
        return None
    drawn = [
        Effect(Label(e.name, f"{e.estimate:+.3f}, p {_p(e.p_holm)}"), e.estimate, e.interval, None)
        for e in known
    ]
    return forest(drawn, f"difference in {measure}", percent=False, width=width)


def dose_response(
    subject: SubjectResult, measure: str, stressor: str, width: int = WIDE
) -> Chart | None:
    """A measure over the doses of a stressor, with intervals; None without two doses."""
    rows = _doses(subject.arms, measure, stressor)
    if len(rows) < 2:
        return None
    base = alt.Chart(data(rows))
    across = alt.X("dose:Q", title=f"dose of {stressor}", scale=alt.Scale(zero=False, nice=True))
    up = alt.Y("value:Q", title=measure)
    bars = alt.Chart(data([row for row in rows if "low" in row]))
    return layered(
        [
            bars.mark_rule(strokeWidth=2.5, color=BLUE).encode(
                x=across, y=alt.Y("low:Q", title=measure), y2="high:Q"
            ),
            base.mark_line(color=BLUE, strokeDash=[4, 3]).encode(x=across, y=up),
            base.mark_point(filled=True, size=70, opacity=1, color=BLUE).encode(x=across, y=up),
        ],
        width,
        DOSE_HEIGHT,
    )


def _doses(arms: Sequence[ArmResult], measure: str, stressor: str) -> list[Row]:
    rows = []
    for arm in arms:
        found = arm.measures[measure]
        dosed = arm.dose is not None and f"{stressor}-" in arm.arm
        if dosed and found.value is not None:
            bounds = found.interval._asdict() if found.interval else {}
            rows.append({"dose": arm.dose, "value": found.value, **bounds})
    return sorted(rows, key=lambda row: row["dose"])


def _p(value: float | None) -> str:
    return "–" if value is None else ("<0.001" if value < 0.001 else f"{value:.3f}")
