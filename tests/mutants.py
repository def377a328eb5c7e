"""Does the suite still find the faults it used to find? Runs each mutant's tests against it.

A mutant is a small change to the package that is wrong. `mutants.toml` lists mutants that the suite
is known to kill, each with the tests that do so. Whoever moves, merges or speeds up tests runs this
before and after:

    python tests/mutants.py [ID ...] [--at CHECKOUT]

The mutants are made in a copy of `src`; the checkout itself is never changed.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve()
# A run that takes longer hangs; the selections in the list take seconds.
MAX_SECONDS = 600
KILLED, SURVIVED = "killed", "SURVIVED"
# Exit codes of pytest. Any other one means that no test has judged the mutant.
PASSED, FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong change to a file of the package, and the tests that fail because of it."""

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    breaks: str


def read_mutants(path: Path) -> list[Mutant]:
    """The list, in its order."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    found = [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]
    twice = [name for name, count in Counter(each.id for each in found).items() if count > 1]
    if twice:
        raise SystemExit(f"{path.name}: two mutants are called {', '.join(twice)}")
    return found


class Trial:
    """Judges mutants of one checkout, one after another, in a copy of its package."""

    def __init__(self, checkout: Path, src: Path) -> None:
        self.checkout = checkout
        self.src = src
        # A cache on the instance: each selection is tried on the unchanged package once.
        self.passes_unchanged = cache(lambda tests: self._run(tests) == PASSED)

    def judge(self, mutant: Mutant) -> str:
        """What became of a mutant, in a word or a few."""
        path = self.src / "chimeralab" / mutant.file
        original = path.read_text(encoding="utf-8") if path.is_file() else ""
        if original.count(mutant.old) != 1 or mutant.old == mutant.new:
            return "does not apply"
        if not self.passes_unchanged(mutant.tests):
            return "its tests fail on the unchanged package"
        try:
            self._write(path, original.replace(mutant.old, mutant.new))
            code = self._run(mutant.tests)
        finally:
            self._write(path, original)
        known = {PASSED: SURVIVED, FAILED: KILLED, None: "timed out"}
        return known.get(code, f"its tests do not run (pytest exit code {code})")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Two texts of one length, written within a second, would share one compiled file.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def _run(self, tests: tuple[str, ...]) -> int | None:
        """The exit code of pytest on some tests; None if it did not end in time."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self.src)}
        try:
            ran = subprocess.run(
                [*command, *tests],
                cwd=self.checkout,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                timeout=MAX_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        return ran.returncode


def main() -> int:
    """Judge the mutants that are named, or all; 0 if every one of them is killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="mutants to judge (default: all)")
    parser.add_argument("--at", type=Path, default=HERE.parents[1], help="the checkout to judge")
    asked = parser.parse_args()
    mutants = read_mutants(HERE.with_suffix(".toml"))
    if unknown := set(asked.ids) - {each.id for each in mutants}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        checkout, src = asked.at.resolve(), Path(folder) / "src"
        # With the compiled encoder, which is part of the package as it is installed.
        shutil.copytree(checkout / "src", src, ignore=shutil.ignore_patterns("__pycache__"))
        trial = Trial(checkout, src)
        for mutant in mutants:
            if not asked.ids or mutant.id in asked.ids:
                outcome = trial.judge(mutant)
                outcomes[outcome] += 1
                print(f"{mutant.id:<32} {outcome}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    return 0 if set(outcomes) <= {KILLED} else 1


if __name__ == "__main__":
    sys.exit(main())
