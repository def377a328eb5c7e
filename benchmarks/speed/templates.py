"""Each template of a trial, whole on the embedded model: six minutes on two cores are enough.

`--folder` keeps the studies with their pages; `--only` runs some. What else the machine does adds
to the time that passes, so the bar is on CPU seconds: half of them is what two quiet cores take.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.speed.start import seconds
from benchmarks.table import Result, keep
from chimeralab.study.folder import templates

COMMAND = "python -m benchmarks.speed.templates"
CORES = 2
MINUTES = 6.0
SUBJECT = "smol"


class Ran(NamedTuple):
    """One template: what its primary outcomes can find, its calls, and what it took."""

    name: str
    calls: int
    scenarios: int
    finds: str
    check: float
    run: float
    report: float
    page: Path

    @property
    def seconds(self) -> float:
        return self.check + self.run + self.report

    @property
    def minutes(self) -> float:
        return self.seconds / CORES / 60

    @property
    def calls_per_second(self) -> float:
        return CORES * self.calls / self.run


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(options.folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.only or _quickest_first(folder):
            ran = whole(name, folder / name)
            note = (
                f"{ran.calls:,} calls of {SUBJECT}, {ran.calls_per_second:.1f} a second; CPU-s: "
                f"check {ran.check:.0f}, run {ran.run:.0f}, report {ran.report:.0f}; "
                f"{ran.scenarios} scenarios find {ran.finds}"
            )
            value = f"{ran.minutes:.1f} min ({ran.seconds:.0f} CPU-s on {CORES} cores)"
            met = ran.minutes <= MINUTES and ran.page.exists()
            bar = f"{MINUTES:g} min, with a page"
            keep(Result(f"template {name}", value, bar, met, COMMAND, note))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="where the studies go; they stay there")
    parser.add_argument("--only", nargs="*", help="templates to run")
    return parser.parse_known_args()[0]


def _quickest_first(folder: Path) -> list[str]:
    names = [name for name in templates() if name.startswith("trial-")]
    with tempfile.TemporaryDirectory(dir=folder) as apart:
        expected = {name: _forecast(name, Path(apart) / name) for name in names}
    return sorted(names, key=lambda name: _calls(expected[name]))


def whole(name: str, study: Path) -> Ran:
    """Make a study from a template, check, lock, run and report it."""
    expected = _forecast(name, study) if not study.exists() else _json("check", study, "--offline")
    found = expected["detectable"]
    finds = ", ".join(f"{each['measure']} {each['difference']:.2f}" for each in found)
    check = _seconds("check", study)
    _seconds("lock", study)
    run = _seconds("run", study)
    report = _seconds("report", study)
    page = study / "report" / "index.html"
    scenarios = found[0]["scenarios"]
    return Ran(name, _calls(expected), scenarios, finds, check, run, report, page)


def _forecast(name: str, study: Path) -> dict[str, Any]:
    _seconds("new", study, "--template", name)
    return _json("check", study, "--offline")


def _calls(expected: dict[str, Any]) -> int:
    return next(load["calls"] for load in expected["loads"] if load["model"] == SUBJECT)


def _json(*command: str | Path) -> dict[str, Any]:
    line = [sys.executable, "-m", "chimeralab", *map(str, command), "--json"]
    found: dict[str, Any] = json.loads(
        subprocess.run(line, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    )
    return found


def _seconds(*command: str | Path) -> float:
    """The CPU seconds of a command and of all its children, the engine among them."""
    print("chimera", *command, flush=True)
    return seconds(("-m", "chimeralab", *map(str, command)))


if __name__ == "__main__":
    main()
