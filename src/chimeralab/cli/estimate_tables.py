"""The output of `analyse` and `compare`: tables of estimates, interpretation, notes."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from chimeralab.cli.terminal import new_table, out, sanitize, say
from chimeralab.core.numbers import NONE, between, number, p_value, percent, plural
from chimeralab.core.result_words import MARK, ResultWords
from chimeralab.report.page import render_sentence
from chimeralab.report.table import (
    SHARE,
    SIGNIFICANT,
    UNITS,
    Cell,
    clip_interval,
    make_table,
    optional_cell,
)
from chimeralab.report.table import Table as ReportTable
from chimeralab.selfplay.analysis import Analysis
from chimeralab.selfplay.outcomes import MEASURES, Measure, measure_name
from chimeralab.selfplay.replication import Replication
from chimeralab.selfplay.report import tables
from chimeralab.selfplay.robustness import DetectorRobustness
from chimeralab.stats.effects import Effect, short

if TYPE_CHECKING:
    from chimeralab.selfplay.covariates import CovariateResult
    from chimeralab.selfplay.escape import EscapeAnalysis
    from chimeralab.trial.analysis import SubjectResult, TrialAnalysis

# The measures whose comparisons are printed; the report has all of them.
COMPARED: tuple[Measure, ...] = ("share", "restricted_mean", "incidence")
SENTENCES = "selfplay_sentences.txt"
FAMILIES = {
    "contrasts": "against {reference}, within scenarios",
    "factorial": "main effects and interactions",
    "doses": "slope over the dose",
    "countermeasures": "with a countermeasure minus without",
}


def print_analysis(analysis: Analysis, words: ResultWords, *, full: bool) -> None:
    """Print what the tables of the report say, then the tables; the less important with `full`."""
    analysis = analysis.reorder(analysis.rank_stability.order)
    print_lines([*tables.interpret(analysis, words), ""])
    print_report_table(f"Share of {words.turns}", tables.shares(analysis))
    if unseen := tables.unseen_cycles(analysis):
        print_report_table("Cycles that the declared rule can't count", unseen)
    if full:
        print_report_table(f"First {words.event}", tables.first_collapses(analysis, words))
    declared = (each.estimand.measure for each in analysis.answers if each.comparisons)
    more = [name for name in dict.fromkeys(declared) if name not in MEASURES]
    for measure in (*COMPARED, *more) if analysis.contrasts else ():
        title = f"Difference in the {measure_name(measure, words)}"
        print_comparisons(title, analysis.rows(measure), analysis.settings.level)
    if full:
        print_report_table(f"After the first {words.event}", tables.after_onset(analysis, words))
    left = [
        f"left out of {part.condition}: {part.runs}, {part.reason}" for part in analysis.left_out
    ]
    notes = ("about_shares", "about_episodes")
    about = [render_sentence(SENTENCES, name, words=words) for name in notes]
    about += [render_sentence(SENTENCES, "about_unseen")] if unseen else []
    rest = (*about, _about_tests()) if full else ("--full has more tables and notes.",)
    print_lines((*(f"{note}." for note in (*left, *analysis.notes)), *rest), style="dim")


def print_escape(found: "EscapeAnalysis") -> None:
    """Print what became of perturbed loops, as the report says it."""
    from chimeralab.selfplay.report.escape import (  # noqa: PLC0415 - seldom needed
        arm_table,
        comparison_table,
        describe_escape,
    )

    print_lines(describe_escape(found))
    print_report_table("Loop → escape → relapse", arm_table(found))
    print_report_table("Differences between perturbations", comparison_table(found))


def _about_tests() -> str:
    return render_sentence(SENTENCES, "about_tests")


def print_comparisons(title: str, effects: Sequence[Effect], level: float) -> None:
    unit = UNITS[effects[0].measure].difference.strip()
    print_report_table(f"{title}, in {unit}", tables.contrasts("", effects, level, bare=True))


def print_report_table(title: str, content: ReportTable) -> None:
    """Print a table of the report and, below it, the reason behind each dash."""
    rows = [
        [sanitize(f"{text} [{mark}]" if mark else text) for text, mark in row]
        for row in content.rows
    ]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(content.headings[0], overflow="fold")
    for column, heading in enumerate(content.headings[1:], start=1):
        # Headings wrap, numbers do not.
        width = max(map(len, (*heading.split(), *(row[column] for row in rows))))
        table.add_column(textwrap.fill(heading, width), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)
    print_lines((f"[{mark}] {reason}" for mark, reason in content.notes), style="dim")
    out.print()


def print_robustness(found: DetectorRobustness) -> None:
    """Print a line per specification curve, and compare words alone with the embedding."""
    lines = [""]
    for curve in found.curves:
        if curve.declared is None or curve.lowest is None or curve.highest is None:
            lines.append(f"{curve.a} − {curve.b}: no estimate with the declared detector.")
            continue
        declared, low, high = (
            number(each, 3, sign=True) for each in (curve.declared, curve.lowest, curve.highest)
        )
        lines.append(
            f"{curve.a} − {curve.b}: {declared} as declared; {low} to {high} over "
            f"{curve.distinct_detectors} detectors with {curve.distinct_outcomes} outcomes; "
            f"{curve.same_sign} agree on the direction, {curve.significant} of them with an "
            "interval that excludes 0."
        )
    print_lines([*lines, ""])
    headings = ("talks", "correlation", "both", "words only", "embedding only", "neither")
    rows = []
    for each in found.co_detectors:
        counts = (each.both, each.only_lexical, each.only_embedding, each.neither)
        shown = (NONE if count is None else str(count) for count in counts)
        name = " ".join(each.name.split("_"))
        rows.append((name, str(each.conversations), number(each.correlation, 2), *shown))
    title = "Collapse by words alone, compared with the embedding"
    print_table(title, ("measure", *headings), rows)


def print_covariates(found: "CovariateResult") -> None:
    """Print a table for each outcome, as those of the report."""
    headings = ("covariate", "rho", "95 %", "as if independent", "p (Holm)", "per SD", "rows")
    cluster = " and ".join(found.cluster)
    for outcome, group in groupby(found.associations, key=lambda each: each.outcome):
        rows: list[list[Cell]] = [
            [
                each.covariate,
                optional_cell(number(each.rho, 2, sign=True), each.rho, each.reason),
                between(each.interval, 2, sign=True),
                between(each.naive_interval, 2, sign=True),
                p_value(each.p_holm),
                number(each.slope, 3, sign=True),
                f"{each.rows:,} in {each.clusters:,}",
            ]
            for each in group
        ]
        title = f"Covariates by {found.about} and {outcome}, in clusters by {cluster}"
        print_report_table(title, make_table("covariates", headings, rows, []))
    print_lines(found.notes, style="dim")


def print_replication(found: Replication) -> None:
    """Print the comparison of two tables of runs."""
    shares, times = (
        [measures[name] for measures in found.conditions.values()]
        for name in ("share", "restricted_mean")
    )
    level = found.settings.level
    print_comparisons(f"Share of {MARK.turns}", shares, level)
    print_comparisons(f"Mean turns to the first {MARK.event}", times, level)
    if found.pairs:
        print_changes(found)
    same = "the same" if found.order_a == found.order_b else "not the same"
    orders = (" > ".join(order) for order in (found.order_a, found.order_b))
    alone = ((found.a, found.only_in_a), (found.b, found.only_in_b))
    missing = (f"only in {table}: {', '.join(names)}" for table, names in alone if names)
    print_lines([f"The order of the conditions is {same}: {' | '.join(orders)}.", ""])
    print_lines((*found.notes, *missing, _about_tests()), style="dim")


def print_changes(found: Replication) -> None:
    """Print the difference of each pair of conditions in both tables, and its change."""
    headings = ("in A", "in B", "moved", "interval", "Holm p", "naive p", "ratio", "sign")
    title = f"Difference in the share of {MARK.turns}, in A and in B"
    rows = [
        (
            f"{each.first} − {each.second}",
            *(number(part.estimate, 3) for part in (each.in_a, each.in_b, each.moved)),
            between(each.moved.interval, 3),
            p_value(each.moved.p_holm),
            p_value(each.moved.naive_p),
            number(each.moved.se_ratio, 2),
            {True: "same", False: "OTHER", None: NONE}[each.same_direction],
        )
        for each in found.pairs
    ]
    print_table(title, ("pair", *headings), rows)


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = new_table(*headings)
    for name, *cells in rows:
        table.add_row(Text(sanitize(name)), *cells)
    out.print(title, style="bold")
    out.print(table)
    out.print()


def print_lines(lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        out.print(Text(sanitize(line)), style=style, soft_wrap=True)


def print_trial(result: "TrialAnalysis", *, full: bool) -> None:
    """Print what was found, then each subject's checks and measures by arm; `full`, all effects."""
    for line in _list_verdicts(result):
        out.print(line, style="bold", soft_wrap=True, markup=False)
    for subject in result.subjects:
        _print_subject(subject, full=full)
    has_effects = any(subject.effects for subject in result.subjects)
    if has_effects and not full:
        out.print("--full has the effects, --json every measure.", style="dim")
    elif has_effects:
        out.print(
            "Primary effects are those that \\[outcomes] declares or, by default, those on the "
            "targets of the stressors; all others are exploratory. Holm p is corrected over all "
            "effects of one role. --json has every measure.",
            style="dim",
        )
    out.print(f"{result.sessions} complete sessions, {result.scenarios} scenarios", style="dim")
    for each in result.left_out:
        say(f"left out as incomplete: {each.arm}, {each.sessions:,} ({each.reason})")
    begun = result.sessions + sum(each.sessions for each in result.left_out)
    if begun < result.planned:
        say(f"{result.planned - begun:,} of {result.planned:,} planned sessions have not started")


def _print_subject(subject: "SubjectResult", *, full: bool) -> None:
    out.print(f"\n[bold]{sanitize(subject.subject)}[/bold]", highlight=False)
    if subject.informative:
        out.print(f"informative: {sanitize(subject.checks[0].message)}")
    if subject.reasons:
        what = "these arms are left out" if subject.informative else "no effects are shown"
        out.print(f"not informative, so {what}:", style="bold")
    for reason in subject.short_reasons:
        out.print(f"  {sanitize(reason)}", soft_wrap=True)
    if not subject.informative:
        return  # its numbers would mislead
    _print_arms(subject)
    for family, title in FAMILIES.items() if full else ():
        heading = title.format(reference=sanitize(short(subject.reference)))
        _print_effects(heading, getattr(subject, family))


def _list_verdicts(result: "TrialAnalysis") -> Iterable[str]:
    """For each subject, which primary effects are clear of chance."""
    from chimeralab.trial.measures import find_measure  # noqa: PLC0415

    for subject in result.subjects:
        name = sanitize(subject.subject)
        primary = [each for each in subject.effects if each.role == "primary"]
        if not subject.informative or not primary:
            why = "not informative" if not subject.informative else "no primary effect"
            yield f"{name}: {why}."
            continue
        found = [each for each in primary if each.p_holm is not None and each.p_holm < SIGNIFICANT]
        named = "; ".join(
            f"{_foldable(each.short_name)}: {find_measure(each.measure).short}"
            f" {number(each.estimate, 3, sign=True)}"
            for each in found
        )
        count = f"{len(found)} of {plural(len(primary), 'primary effect')}"
        yield f"{name}: {count} found (Holm p < 0.05){': ' if named else ''}{named}."


def print_trial_comparison(found: Mapping[str, Any]) -> None:
    """Print the differences between two trials on the metrics and accuracy."""
    _print_effects("first minus second, within scenarios", found["effects"])
    alone = {"first": found["only_in_a"], "second": found["only_in_b"]}
    missing = [f"only in the {side}: {', '.join(names)}" for side, names in alone.items() if names]
    same = "Scenarios with the same names are taken to be the same scenarios."
    print_lines(("", same, *missing, "--json has every measure."), style="dim")


def _foldable(name: str) -> str:
    """Put spaces around each plus, so that the name of an arm can wrap."""
    return " + ".join(sanitize(name).split("+"))


def _print_arms(subject: "SubjectResult") -> None:
    """Print the main measures by arm, and the delivered doses."""
    from chimeralab.trial.measures import find_measure  # noqa: PLC0415

    measures = [arm.measures for arm in subject.arms]
    brief = [name for name in measures[0] if find_measure(name).brief]
    shown = [name for name in brief if any(each[name].value is not None for each in measures)]
    table = new_table("arm", *(find_measure(name).short for name in shown), min_width=13)
    for arm in subject.arms:
        cells = (number(arm.measures[name].value, 2) for name in shown)
        table.add_row(_foldable(short(arm.arm)), *cells)
    out.print(table)
    stressors = dict.fromkeys(name for arm in subject.arms for name in arm.delivered)
    if not stressors:
        return
    # Combined stressors may deliver less than single ones.
    out.print("\ndose delivered: share of trials in which each stressor took effect")
    table = new_table("arm", *map(sanitize, stressors), min_width=13)
    for arm in subject.arms:
        shares = arm.delivered
        if shares:
            doses = {
                n: "unknown" if dose is None else percent(dose, 0) for n, dose in shares.items()
            }
            table.add_row(_foldable(short(arm.arm)), *(doses.get(name, "") for name in stressors))
    out.print(table)


def _print_effects(title: str, effects: tuple[Effect, ...]) -> None:
    """Print the effects on the targets of their arms; `--json` has all of them."""
    from chimeralab.trial.effects import is_listed  # noqa: PLC0415
    from chimeralab.trial.measures import find_measure  # noqa: PLC0415

    known = [effect for effect in effects if effect.estimate is not None and is_listed(effect)]
    if not known:
        return
    out.print(f"\n{title}")
    table = new_table("effect", min_width=13)
    table.add_column("measure", no_wrap=True)
    for heading in ("estimate", "95 % interval", "p", "Holm p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for effect in known:
        estimate = number(effect.estimate, 3, sign=True)
        interval = effect.interval
        if find_measure(effect.measure).unit != "index":
            interval = clip_interval(interval, SHARE, effect.weights)
        bounds = between(interval, 3, sign=True) if interval else ""
        ps = (p_value(effect.p), p_value(effect.p_holm))
        mark = " (primary)" if effect.role == "primary" else ""
        name = _foldable(effect.short_name) + mark
        table.add_row(Text(name), find_measure(effect.measure).short, estimate, bounds, *ps)
    out.print(table)
    for reason in dict.fromkeys(each.reason for each in known if each.p is None and each.reason):
        out.print(f"–: {sanitize(reason)}", style="dim", soft_wrap=True)
