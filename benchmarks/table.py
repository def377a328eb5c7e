"""The table of results: one row a bar, the last measurement of each, in docs/performance.md."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from benchmarks.age import benchmark_of, measured_at

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- results -->", "<!-- /results -->"


@dataclass(frozen=True)
class Result:
    """One bar: what was measured, the value, what was asked for, and how to measure it again."""

    name: str
    value: str
    bar: str
    met: bool
    command: str
    note: str = ""


def keep(result: Result) -> None:
    """Print a result and put it into the table in place of the last one of that name."""
    verdict = "met" if result.met else "NOT met"
    print(f"{result.name}: {result.value} (bar: {result.bar}; {verdict}) {result.note}")
    rows = read_rows()
    rows[result.name] = asdict(result) | {
        "commit": measured_at(ROOT, benchmark_of(result.command)),
        "date": str(date.today()),  # noqa: DTZ011
        "machine": _machine(),
    }
    RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    _write_page(rows)


def read_rows() -> dict[str, dict[str, object]]:
    rows: dict[str, dict[str, object]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return rows


def _write_page(rows: dict[str, dict[str, object]]) -> None:
    lines = [
        "| what | measured | bar | met | note | command | machine | commit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted(rows):
        row = rows[name]
        cells = [name, row["value"], row["bar"], "yes" if row["met"] else "**no**", row["note"]]
        cells += [f"`{row['command']}`", row["machine"], row["commit"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{chr(10).join(lines)}\n{END}{tail}", encoding="utf-8")


def _machine() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        name = next(
            line.split(":")[1].strip() for line in info.splitlines() if "model name" in line
        )
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"
