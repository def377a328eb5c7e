"""The table and the page of stuck-bench."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.age import measured_at
from benchmarks.stuck.contestants import EVERYBODY, describe
from benchmarks.stuck.logs import Absent, Row, is_agreed
from benchmarks.stuck.score import Outcome, Share, kappa, measure
from benchmarks.table import ROOT
from chimeralab.detection.seam import Detector

PAGE = ROOT / "docs" / "stuck-bench.md"
PICTURE = ROOT / "docs" / "images" / "stuck-bench.svg"
RESULTS = ROOT / "benchmarks" / "stuck" / "results.json"
HEADLINE = ("agents, held back", "talks, held back")
HEAD = (
    "| detector | loops found | healthy logs with an alarm | false alarms per 1,000 messages"
    " | alarms before the loop | delay | waste before | onset off by |\n" + "|---" * 8 + "|"
)
COLOURS = {"ours": "#2f6db3", "others": "#d98a2b", "baseline": "#7f7f7f"}
Results = dict[str, list[dict[str, Any]]]
"""By set, a row for each contestant."""


def summarise(
    titles: Sequence[str], added: Mapping[str, Detector], outcomes: Sequence[Outcome]
) -> Results:
    """The numbers of each contestant by set, the best by recall less false alarms first."""
    commit = measured_at(ROOT, "stuck.run")
    results: Results = {}
    for group in dict.fromkeys(each.group for each in outcomes):
        mine = [each for each in outcomes if each.group == group]
        rows = [
            describe(title, added.get(title) or EVERYBODY[title])
            | {"commit": commit, "set": group}
            | measure(title, mine)
            for title in titles
        ]
        results[group] = sorted(rows, key=_rank)
    return results


def _rank(row: Mapping[str, Any]) -> float:
    return (row["false"].value or 0.0) - (row["recall"].value or 0.0)


def tables(results: Results) -> str:
    return "\n\n".join(f"### {group}\n\n{table(rows)}" for group, rows in results.items())


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    lines = [HEAD]
    for row in rows:
        cells = [row["contestant"], row["recall"], row["false"], _number(row["per_thousand"], 2)]
        cells += [row["early"], _number(row["delay"], 1), _number(row["waste"], 2)]
        lines.append("| " + " | ".join(map(str, (*cells, _number(row["onset_error"], 1)))) + " |")
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}".removesuffix(".0")


def kinds_table(results: Results, groups: Sequence[str]) -> str:
    """How many loops of each kind a contestant finds, over several sets."""
    rows = [row for group in groups for row in results.get(group, ())]
    kinds = dict.fromkeys(kind for row in rows for kind in row["by_kind"])
    lines = [f"| detector | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for title in dict.fromkeys(row["contestant"] for row in rows):
        counts = [
            [row["by_kind"].get(kind, {}) for row in rows if row["contestant"] == title]
            for kind in kinds
        ]
        cells = [
            f"{sum(each.get('found', 0) for each in group)} of"
            f" {sum(each.get('stuck', 0) for each in group)}"
            for group in counts
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def agreement_table(groups: Mapping[str, Sequence[Row]]) -> str:
    lines = [
        "| set | logs | sources | both: stuck | both: not | differ | kappa |",
        "|---" * 7 + "|",
    ]
    for group, rows in groups.items():
        pairs = [(row["stuck_1"], row["stuck_2"]) for row in rows]
        sources = len({row["repository"] for row in rows})
        both = [pairs.count((value, value)) for value in "10"]
        cells = [len(rows), sources, *both, len(rows) - sum(both), _number(kappa(pairs), 2)]
        lines.append(f"| {group} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def differences(groups: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """The logs that do not count, since the readers differ."""
    said = {"1": "stuck", "0": "not stuck"}
    for group, rows in groups.items():
        for row in rows:
            if not is_agreed(row):
                views = (said.get(row[f"stuck_{n}"], "undecided") for n in (1, 2))
                name = row["id"].lstrip("#").split("/")[-1]
                yield f"- {group}: {row['repository']}, `{name[-60:]}`: {', '.join(views)}"


def tell_absent(absent: Sequence[Absent], judged: int, *, full: bool) -> str:
    """What was left out, and how to get it."""
    lines = [f"{judged} logs judged, {len(absent)} left out"]
    for why in dict.fromkeys(each.why for each in absent):
        names = [each.repository for each in absent if each.why == why]
        listed = ", ".join(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))
        lines.append(f"  {why}: {listed}")
    away = dict.fromkeys(each.repository for each in absent if each.why == "not here")
    if away and full:
        lines.append("Run this in an empty folder, and name it in CHIMERA_REPOSITORIES:")
        for name in away:
            target = name.replace("/", "+")
            lines.append(f"  git clone --bare https://github.com/{name} '{target}/repo'")
    elif away:
        lines.append(
            f"  {len(away)} repositories are not in the folder that CHIMERA_REPOSITORIES names;"
            " --missing prints the commands that fetch them"
        )
    return "\n".join(lines)


def list_errors(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for each in outcomes:
        if (each.hit(title) is not None) != each.stuck:
            what = "missed" if each.stuck else "false"
            where = f"{each.onsets}-{each.last}" if each.onsets else ""
            yield (
                f"{what}: {each.group}: {each.source} {each.id[-60:]} {each.kind} {where}"
                f" {[tuple(alarm) for alarm in each.alarms[title][:3]]}"
            )


def write(results: Results, groups: Mapping[str, Sequence[Row]], absent: Sequence[Absent]) -> None:
    """Write the results, the picture and the parts of the page that are measured."""
    rows = [
        {key: plain(value) for key, value in row.items()}
        for group in results.values()
        for row in group
    ]
    text = json.dumps(rows, indent=1, sort_keys=True)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    PICTURE.write_text(draw(results), encoding="utf-8")
    others = [group for group in results if group not in HEADLINE]
    parts = {
        "agents": table(results.get(HEADLINE[0], ())),
        "talks": table(results.get(HEADLINE[1], ())),
        "others": "\n\n".join(f"**{group}**\n\n{table(results[group])}" for group in others),
        "kinds": kinds_table(results, [group for group in results if group != "zoo"]),
        "labels": agreement_table(groups),
        "differences": "\n".join(differences(groups)),
        "absent": tell_absent(absent, _judged(results), full=False),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, part in parts.items():
        page = replace_part(page, name, part)
    PAGE.write_text(page, encoding="utf-8")


def _judged(results: Results) -> int:
    return sum(rows[0]["recall"].total + rows[0]["false"].total for rows in results.values())


def replace_part(page: str, name: str, text: str) -> str:
    """Replace what stands between the marks of a part."""
    head, mark, rest = page.partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- /{name} -->")
    return f"{head}{mark}\n{text}\n\n{end}{tail}" if mark and end else page


def draw(results: Results) -> str:
    """Recall against false alarms in the logs held back: agents on the left, talks on the right."""
    side, gap, left, top = 300, 70, 60, 40
    font = 'font-family="sans-serif" font-size="12" fill="#333"'
    titles = [row["contestant"] for row in results.get(HEADLINE[0], ())]
    width, height = left + 2 * side + gap + 30, top + side + 60 + 18 * ((len(titles) + 2) // 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' role="img" aria-label="Loops found against healthy logs with an alarm, by detector">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for panel, group in enumerate(HEADLINE):
        x0 = left + panel * (side + gap)
        parts += [
            f'<rect x="{x0}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#999"/>',
            f'<text x="{x0 + side / 2}" y="{top - 14}" text-anchor="middle" {font}>{group}</text>',
            f'<text x="{x0 + side / 2}" y="{top + side + 36}" text-anchor="middle" {font}>'
            "healthy logs with an alarm</text>",
        ]
        for tick in (0, 0.5, 1):
            parts += [
                f'<text x="{x0 + side * tick}" y="{top + side + 18}" text-anchor="middle" {font}>'
                f"{tick:g}</text>",
                f'<text x="{x0 - 8}" y="{top + side * (1 - tick) + 4}" text-anchor="end" {font}>'
                f"{tick:g}</text>",
            ]
        parts += list(_dots(results.get(group, ()), titles, x0, top, side))
    middle = top + side / 2
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})"'
        f" {font}>loops found</text>"
    )
    for n, title in enumerate(titles):
        x, y = left + 225 * (n % 3), top + side + 62 + 18 * (n // 3)
        parts.append(f'<text x="{x}" y="{y}" {font}>{n + 1} {title}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _dots(
    rows: Iterable[Mapping[str, Any]], titles: Sequence[str], x0: float, top: float, side: float
) -> Iterator[str]:
    for row in rows:
        found, false = row["recall"], row["false"]
        if found.value is None or false.value is None:
            continue
        x, y = x0 + side * false.value, top + side * (1 - found.value)
        source = row["source"]
        kind = "ours" if source.startswith("docs/") else "others"
        colour = COLOURS["baseline" if source == "a baseline" else kind]
        number = titles.index(row["contestant"]) + 1
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="{colour}" fill-opacity="0.75">'
            f"<title>{row['contestant']}: {found}, {false}</title></circle>"
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-family="sans-serif"'
            f' font-size="10" fill="#fff">{number}</text>'
        )


def plain(value: Any) -> Any:
    """A share as a count, a total and an interval."""
    return value._asdict() if isinstance(value, Share) else value
