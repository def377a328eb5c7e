"""Loop → escape → relapse: the figure, the tables and the sentence of perturbed loops."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import altair as alt

from chimeralab.core.numbers import p_phrase, p_value, percent, plural
from chimeralab.report.charts.canvas import (
    BLUE,
    FAINT_INK,
    GRID,
    LINE,
    ORANGE,
    VERMILION,
    WIDE,
    Chart,
    Figure,
    Label,
    Row,
    data,
    draw,
    labels,
    layer_charts,
    legend,
    pixel_scale,
)
from chimeralab.report.page import Block, Section, paragraph, render_sentence
from chimeralab.report.table import (
    SIGNIFICANT,
    UNITS,
    Cell,
    Dash,
    Table,
    flatten,
    format_difference,
    format_estimate,
    make_table,
)
from chimeralab.selfplay.escape import MEASURES, EscapeAnalysis, EscapeArm, PassageEstimate
from chimeralab.stats.effects import Effect
from chimeralab.stats.transitions import STATES

say = partial(render_sentence, "selfplay_sentences.txt")
# Pixels: two lines of text, the states, and the labels of the turns.
WORDS, BAND, AIR = 2 * LINE + 4, 72, 14
ROW = WORDS + BAND + AIR
STATE_NAMES = dict(zip(STATES, ("in the loop", "escaped", "relapsed", "stopped"), strict=True))
STATE_COLOURS = (VERMILION, BLUE, ORANGE, GRID)


def escape_section(found: EscapeAnalysis) -> Section:
    """The figure, what it says, and the numbers behind it."""
    blocks: list[Block] = [paragraph(sentence) for sentence in describe_escape(found)]
    if figure := escape_figure(found):
        blocks.append(figure)
    blocks += [arm_table(found), *([comparison_table(found)] if found.comparisons else ())]
    blocks.append(paragraph(say("about_escape", settings=found.settings), "note"))
    return Section("escape", "Loop → escape → relapse", blocks)


def describe_escape(found: EscapeAnalysis) -> Iterator[str]:
    """How many loops ended in each arm, how many came back, and which differences are found."""
    arms = [each for each in found.arms.values() if each.estimates["escape"].value is not None]
    if not arms:
        yield say("no_escape", arms=list(found.arms.values()))
        return
    asked = [each for each in found.comparisons if each.measure == "escape" and each.p_holm]
    first = [each for each in asked if each.role == "primary"] or asked
    differences = [
        (each, format_difference(each.estimate, each.interval, UNITS["escape"], each.weights))
        for each in first[:2]
    ]
    yield say(
        "escape",
        arms=[(each.arm, _show(each, "escape"), _show(each, "relapse")) for each in arms],
        horizon=found.settings.horizon,
        differences=[
            (each, text, p_phrase(each.p_holm), _is_found(each)) for each, text in differences
        ],
    )


def _is_found(effect: Effect) -> bool:
    return effect.p_holm is not None and effect.p_holm < SIGNIFICANT


def _show(arm: EscapeArm, measure: str) -> str:
    each = arm.estimates[measure]
    return format_estimate(each.value, each.interval, UNITS[measure])


def escape_figure(found: EscapeAnalysis) -> Figure | None:
    """The share of conversations in each state, turn by turn after the moment, by arm."""
    rows: list[tuple[Label, Mapping[str, Sequence[float]]]] = [
        (
            (each.arm, f"{_show(each, 'escape')} escaped, {plural(each.runs, 'conversation')}"),
            each.states,
        )
        for each in found.arms.values()
        if each.states
    ]
    if not rows:
        return None
    last = {
        label[0]: {STATE_NAMES[name]: percent(share[-1], 0) for name, share in states.items()}
        for label, states in rows
    }
    return draw(
        "escape",
        say("escape_label", arms=last, horizon=found.settings.horizon),
        lambda width: passages(rows, width=width),
        captions=[say("escape_caption", settings=found.settings)],
    )


def passages(
    rows: Sequence[tuple[Label, Mapping[str, Sequence[float]]]], *, width: int = WIDE
) -> Chart:
    """Stacked shares of the states after each turn, an arm below another."""
    height = ROW * len(rows)
    tops = [ROW * place for place in range(len(rows))]
    parts: list[Row] = []
    turns = max(len(next(iter(states.values()))) for _, states in rows)
    for top, (_, states) in zip(tops, rows, strict=True):
        for turn in range(turns):
            floor = float(top + WORDS + BAND)
            for state in STATES:
                ceiling = floor - BAND * states[state][turn]
                ends = {"from": turn - 0.48, "to": turn + 0.48, "top": ceiling, "bottom": floor}
                if floor - ceiling > 0.01:
                    parts.append({"state": STATE_NAMES[state], **ends})
                floor = ceiling
    names = list(STATE_NAMES.values())
    across = alt.X(
        "from:Q",
        title="turns after the moment",
        scale=alt.Scale(domain=[-0.5, turns - 0.5], nice=False),
        axis=alt.Axis(values=list(range(0, turns, max(1, turns // 6))), grid=False),
    )
    depth = alt.Y("top:Q", axis=None, scale=pixel_scale(height))
    colour = alt.Color(
        "state:N",
        scale=alt.Scale(domain=names, range=list(STATE_COLOURS)),
        legend=legend(names, width),
    )
    bars = alt.Chart(data(parts)).mark_rect(aria=False)
    floors = alt.Chart(data({"floor": top + WORDS + BAND} for top in tops))
    lines = floors.mark_rule(color=FAINT_INK, strokeWidth=0.5, aria=False)
    return layer_charts(
        [
            bars.encode(x=across, x2=alt.X2("to:Q"), y=depth, y2=alt.Y2("bottom:Q"), color=colour),
            lines.encode(y=alt.Y("floor:Q", axis=None, scale=pixel_scale(height))),
            *labels([label for label, _ in rows], tops, height, width),
        ],
        width,
        height,
    )


def arm_table(found: EscapeAnalysis) -> Table:
    """Every measure of every arm, a row each."""
    level = f"estimate ({100 * found.settings.level:g} % interval)"
    rows: list[list[Cell]] = []
    raw = []
    for arm in found.arms.values():
        left_out = "; ".join(f"{reason}: {n}" for reason, n in arm.left_out.items())
        for name, each in arm.estimates.items():
            rows.append([f"{arm.arm}: {MEASURES[name].name}", _cell(each), f"{each.runs:,}"])
            numbers = flatten({"value": each.value, "value_ci": each.interval})
            counts = {"runs": each.runs, "prompts": arm.prompts, "left_out": left_out}
            raw.append({"arm": arm.arm, "measure": name, **numbers, **counts})
    return make_table("escape_arms", ("arm", level, "conversations"), rows, raw)


def _cell(each: PassageEstimate) -> Cell:
    shown = format_estimate(each.value, each.interval, UNITS[each.measure])
    return shown if each.interval else Dash(each.reason or "unknown", shown)


def comparison_table(found: EscapeAnalysis) -> Table:
    """The differences between arms, primary ones first, and the entrenchment."""
    level = f"estimate ({100 * found.settings.level:g} % interval)"
    rows: list[list[Cell]] = []
    for each in found.comparisons:
        why = next(iter(each.reasons.values()), "unknown")
        shown = format_difference(each.estimate, each.interval, UNITS[each.measure], each.weights)
        holm: Cell = p_value(each.p_holm) if each.p_holm is not None else Dash(why)
        estimate: Cell = shown if each.interval else Dash(why, shown)
        name = f"{each.marked_name}: {MEASURES[each.measure].name}"
        rows.append([name, estimate, holm, f"{each.units}"])
    age = found.entrenchment
    shown = format_difference(age.slope, age.interval, UNITS["escape"])
    slope: Cell = Dash(age.reason, shown) if age.reason else shown
    alone: Cell = p_value(age.p) if age.p is not None else Dash(age.reason or "not tested")
    rows.append(["each turn in the loop before: share that escaped", slope, alone, ""])
    headings = ("difference of", level, "Holm p", "prompts")
    raw = [{**flatten(each.as_dict()), "weights": each.name, "role": each.role}
           for each in found.comparisons]  # fmt: skip
    return make_table("escape_differences", headings, rows, raw)
