"""What a loop score means: it is fitted on even seeds and labelled logs, and tried on odd seeds.

    python -m benchmarks.validity.loop_score           on the zoo
    python -m benchmarks.validity.loop_score --wild    on wild logs; draws their curve

The score is heat^b / (heat^b + c^b), where heat is what the detector has added up at its height.
Wild logs are judged by words, and weighed so that half are stuck: a curve is fitted to the half for
development and tried on the half held back.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.table import ROOT
from benchmarks.validity.loop_logs import EVEN, ODD, labelled, zoo
from benchmarks.validity.loop_rules import by_loops
from benchmarks.validity.loop_zoo import available
from benchmarks.validity.wild import SETS, judge_all
from chimeralab.detection.loops import HALF_WAY, STEEPNESS, loop_score
from chimeralab.stats.arrays import Floats

PICTURE = ROOT / "docs" / "images" / "loop-score.svg"
CORES = 2
BINS = np.array([0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
WIDE = np.array([0, 0.05, 0.2, 0.4, 0.6, 1.0])  # for the few wild logs
DEVELOPMENT = ("agents-dev", "talks-dev", "selfplay")
HELD_BACK = ("agents-held", "talks-held")
COLOURS = ("#2f6db3", "#d98a2b")


class Scored(NamedTuple):
    """The heat of conversations, whether they are stuck, and what each weighs."""

    heat: Floats
    stuck: Floats
    weight: Floats


class Curve(NamedTuple):
    """The share of stuck conversations at a heat: one half at `middle`."""

    steepness: float
    middle: float

    def at(self, heat: Floats) -> Floats:
        powers = np.power(heat, self.steepness)
        share: Floats = powers / (powers + self.middle**self.steepness)
        return share


def main() -> None:
    if "--wild" in sys.argv:
        report_wild(*(judge_wild(names) for names in (DEVELOPMENT, HELD_BACK)))
        return
    if not available():
        print("the public conversations are not at hand")
        return
    with ProcessPoolExecutor(CORES) as pool:
        even, odd = (_zoo(pool, seeds) for seeds in (EVEN, ODD))
    real = _scored([(by_loops(log.talk).score, log.stuck) for log in labelled()])
    # 58 read logs are to count as much as 4,000 made ones.
    real = real._replace(weight=np.full(len(real.heat), len(even.heat) / len(real.heat)))
    both = Scored(*(np.concatenate(pair) for pair in zip(even, real, strict=True)))
    for name, scored in (("zoo", even), ("labelled", real), ("both", both)):
        fitted = fit(scored)
        print(f"fitted on {name}: b = {fitted.steepness:.2f}, c = {fitted.middle:.2f}")
    curves = {"loops-1": None, "fitted": fit(both), "b = 1, c = 2.35": Curve(1, 2.35)}
    for name, curve in curves.items():
        for place, scored in (("odd seeds", odd), ("labelled logs", real)):
            shown = curve.at(scored.heat) if curve else _today(scored.heat)
            error, loss = _calibration(shown, scored)
            print(f"{name}, {place}: calibration error {error:.3f}, log loss {loss:.3f}")
    rows = reliability(_today(odd.heat), odd)
    print("\n| score | talks | mean score | stuck |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.low:g}-{row.high:g} | {row.n} | {row.score:.2f} | {row.stuck:.2f} |")


def judge_wild(names: Sequence[str]) -> Scored:
    """The scores of sets of wild logs, of which the stuck ones weigh as much as the healthy."""
    pairs = []
    for name in names:
        here = [log for log in SETS[name]() if log is not None]
        judged = judge_all(here, words=True, peers=False)["loops-2"]
        pairs += [(score, log.stuck) for log, (score, _) in zip(here, judged, strict=True)]
    return balance(_scored(pairs))


def balance(scored: Scored) -> Scored:
    """Give the stuck conversations and the healthy ones the same weight."""
    share = float(scored.stuck.mean())
    return scored._replace(weight=np.where(scored.stuck > 0, 0.5 / share, 0.5 / (1 - share)))


def report_wild(development: Scored, held: Scored) -> None:
    """Print how today's curve and one fitted to development logs do on those held back."""
    fitted = fit(development)
    print(f"fitted on development logs: b = {fitted.steepness:.2f}, c = {fitted.middle:.2f}")
    for name, curve in (("today", None), ("fitted", fitted)):
        for place, scored in (("development", development), ("held back", held)):
            shown = curve.at(scored.heat) if curve else _today(scored.heat)
            error, loss = _calibration(shown, scored, WIDE)
            print(f"{name}, {place}: calibration error {error:.3f}, log loss {loss:.3f}")
    lines = {
        name: reliability(_today(scored.heat), scored, WIDE)
        for name, scored in (("wild, development", development), ("wild, held back", held))
    }
    for name, rows in lines.items():
        print(f"\n{name}\n| score | logs | mean score | stuck, of as many healthy |")
        print("|---|---|---|---|")
        for row in rows:
            print(f"| {row.low:g}-{row.high:g} | {row.n} | {row.score:.2f} | {row.stuck:.2f} |")
    draw(lines, PICTURE)


def _zoo(pool: ProcessPoolExecutor, seeds: range) -> Scored:
    parts = [seeds[start : start + 100] for start in range(0, len(seeds), 100)]
    return _scored([pair for part in pool.map(_judge, parts) for pair in part])


def _judge(seeds: range) -> list[tuple[float, bool]]:
    return [(by_loops(log.talk).score, log.stuck) for seed in seeds for log in zoo(seed)]


def _scored(pairs: Sequence[tuple[float, bool]]) -> Scored:
    score = np.array([score for score, _ in pairs])
    heat = HALF_WAY * (score / (1 - score)) ** (1 / STEEPNESS)
    return Scored(heat, np.array([stuck for _, stuck in pairs], float), np.ones(len(pairs)))


def _today(heat: Floats) -> Floats:
    return np.array([loop_score(each) for each in heat])


def fit(scored: Scored) -> Curve:
    """The curve with the smallest log loss."""
    curves = [
        Curve(b, math.exp(c)) for b in np.arange(0.5, 8.01, 0.1) for c in np.arange(-1, 2.01, 0.04)
    ]
    return min(curves, key=lambda curve: _calibration(curve.at(scored.heat), scored)[1])


def _calibration(score: Floats, scored: Scored, bins: Floats = BINS) -> tuple[float, float]:
    """The mean distance of score and share over bins, and the log loss."""
    sure = np.clip(score, 0.005, 0.995)
    logs = scored.stuck * np.log(sure) + (1 - scored.stuck) * np.log(1 - sure)
    loss = -float(np.average(logs, weights=scored.weight))
    rows = reliability(score, scored, bins)
    gaps = (row.weight * abs(row.score - row.stuck) for row in rows)
    return sum(gaps) / sum(row.weight for row in rows), loss


class Bin(NamedTuple):
    """The conversations with scores in a range; means are weighted."""

    low: float
    high: float
    n: int
    weight: float
    score: float
    stuck: float


def reliability(score: Floats, scored: Scored, bins: Floats = BINS) -> list[Bin]:
    """By score: how many conversations there are, and the share of stuck ones."""
    place = np.minimum(np.digitize(score, bins) - 1, len(bins) - 2)
    rows = []
    for n in range(len(bins) - 1):
        inside = place == n
        if inside.any():
            weight = scored.weight[inside]
            means = (
                float(np.average(values[inside], weights=weight))
                for values in (score, scored.stuck)
            )
            total = float(weight.sum())
            rows.append(Bin(float(bins[n]), float(bins[n + 1]), int(inside.sum()), total, *means))
    return rows


def draw(lines: Mapping[str, Sequence[Bin]], path: Path) -> None:
    """The reliability curves: one dot per bin, the larger the more conversations."""
    side, left, top = 320, 60, 20

    def x(value: float) -> float:
        return left + side * value

    def y(value: float) -> float:
        return top + side * (1 - value)

    text = 'font-family="sans-serif" font-size="12" fill="#333"'
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg"'
        f' viewBox="0 0 {left + side + 30} {top + side + 50}"'
        ' role="img" aria-label="Share of stuck conversations by loop score">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#999"/>',
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="#bbb"'
        ' stroke-dasharray="4 4"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(
            f'<text x="{x(tick)}" y="{y(0) + 18}" text-anchor="middle" {text}>{tick:g}</text>'
            f'<text x="{left - 8}" y="{y(tick) + 4}" text-anchor="end" {text}>{tick:g}</text>'
        )
    most = max(row.n for rows in lines.values() for row in rows)
    for n, ((name, rows), colour) in enumerate(zip(lines.items(), COLOURS, strict=False)):
        line = " ".join(f"{x(row.score):.1f},{y(row.stuck):.1f}" for row in rows)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for row in rows:
            size = 3 + 7 * math.sqrt(row.n / most)
            parts.append(
                f'<circle cx="{x(row.score):.1f}" cy="{y(row.stuck):.1f}" r="{size:.1f}"'
                f' fill="{colour}" fill-opacity="0.6"><title>{row.n} conversations</title></circle>'
            )
        parts.append(
            f'<circle cx="{left + 16}" cy="{top + 18 + 20 * n}" r="5" fill="{colour}"/>'
            f'<text x="{left + 28}" y="{top + 22 + 20 * n}" {text}>{name}</text>'
        )
    middle = y(0.5)
    parts += [
        f'<text x="{x(0.5)}" y="{y(0) + 40}" text-anchor="middle" {text}>loop score</text>',
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})"'
        f" {text}>share of stuck conversations</text>",
        "</svg>",
    ]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
