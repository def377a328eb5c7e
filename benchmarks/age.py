"""How old a result is: the commit it was measured at, and how often its code has changed since."""

import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

Row = Mapping[str, object]

# The code that each benchmark measures, in src/chimeralab unless the path names another folder.
# It is listed here because editing a benchmark makes its results old: its file is measured, too.
SCORING = "trial/scoring.py trial/replies.py trial/wording.py trial/opposites.txt"
ZOO = "benchmarks/validity/loop_zoo"
LOOP_LOGS = f"benchmarks/validity/loop_logs.py benchmarks/validity/loop_rules.py {ZOO}"
GUARD_LOGS = f"{LOOP_LOGS} benchmarks/validity/guard_hosts.py benchmarks/stuck/rules"
MEASURES = {
    "speed.analyse": "cli/analyse.py selfplay stats",
    "speed.async_guard": "detection embedding",
    "speed.bootstrap_audit": "stats",
    "speed.cold_start": "cli/detect.py detection embedding readers",
    "speed.demo": "cli detection embedding models report runner selfplay study trial",
    "speed.detect": "detection embedding",
    "speed.encoders": "embedding",
    "speed.feed": "detection",
    "speed.guard": "detection embedding",
    "speed.hook": "cli/hook.py detection integrations/claude_code.py integrations/watch.py readers",
    "speed.loops": "detection",
    "speed.memory": "cli/detect.py detection embedding readers",
    "speed.metrics": "stats trial/columns.py trial/metrics.py trial/sums.py",
    "speed.million": "benchmarks/speed/words.py cli/detect.py detection readers",
    "speed.raters": "study web",
    "speed.ray_workers": "detection embedding readers scale",
    "speed.report": "report study",
    "speed.rules_rater": "rating",
    "speed.runner": "models/phantom.py runner study",
    "speed.selfplay": "models",
    "speed.start": "__init__.py __main__.py cli core",
    "speed.templates": "cli models report runner selfplay study trial",
    "speed.thousand": "models runner study",
    "speed.verify": "benchmarks/speed/report.py detection embedding study",
    "speed.web": "study web",
    "speed.words": "cli/detect.py detection readers",
    "stuck.run": f"detection embedding readers {LOOP_LOGS} benchmarks/stuck",
    "validity.answers": f"embedding tests/golden/answer_pairs.jsonl {SCORING}",
    "validity.causes": f"detection readers {LOOP_LOGS} benchmarks/stuck/labels",
    "validity.contradiction": f"embedding tests/golden/contradiction_pairs.jsonl {SCORING}",
    "validity.countermeasures": "models runner trial",
    "validity.detector_against_rules": "detection embedding rating",
    "validity.escape": "selfplay/escape.py stats",
    "validity.guards": f"detection integrations readers {GUARD_LOGS}",
    "validity.interval_coverage": "stats",
    "validity.kappa_coverage": "benchmarks/validity/interval_coverage.py stats",
    "validity.loop_kinds": "detection",
    "validity.loop_score": f"detection {LOOP_LOGS}",
    "validity.loops": f"detection {LOOP_LOGS}",
    "validity.recovery": "benchmarks/validity/parameters.py runner selfplay stats trial",
    "validity.rules_rater": "rating tests/golden/rules_cases.jsonl",
    "validity.verdicts": "detection embedding",
    "validity.wild": f"detection embedding readers {LOOP_LOGS} benchmarks/stuck/labels",
    "validity.winding": "detection embedding benchmarks/validity/winding_logs.py",
    "validity.winding_head": "detection embedding benchmarks/validity/winding_sentences.toml",
}


def measured_paths(benchmark: str) -> list[str]:
    """The code that a benchmark measures and its own file, from the root of the repository."""
    return [
        f"benchmarks/{benchmark.replace('.', '/')}.py",
        *(
            path if path.startswith(("benchmarks/", "tests/")) else f"src/chimeralab/{path}"
            for path in MEASURES[benchmark].split()
        ),
    ]


def benchmark_of(command: str) -> str:
    """The name of the benchmark that a command runs, such as `speed.guard`."""
    return command.rpartition("benchmarks.")[2]


def head(root: Path) -> str:
    """The commit that is checked out; "" without git or outside of its repository."""
    return _git(root, "rev-parse", "--short", "HEAD") or ""


def measured_at(root: Path, benchmark: str) -> str:
    """The commit that a benchmark measures, with "+" if the code measured differs from it."""
    changed = _git(root, "status", "--porcelain", "--", *measured_paths(benchmark))
    return head(root) + ("+" if changed else "")


def old_rows(root: Path, rows: Mapping[str, Row]) -> dict[str, list[str]]:
    """The rows that are older than the code they measure, by benchmark and age."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, row in sorted(rows.items()):
        groups[benchmark_of(str(row["command"])), str(row["commit"])].append(name)
    ages = {group: _age(root, *group) for group in sorted(groups)}
    return {f"{group[0]}, {age}": groups[group] for group, age in ages.items() if age}


def _age(root: Path, benchmark: str, commit: str) -> str:
    """Why a result may not hold for HEAD; "" if what it measures has not changed."""
    base, mark, _ = commit.partition("+")
    if not base:
        return "measured at an unknown commit"
    paths = measured_paths(benchmark)
    count = _git(root, "rev-list", "--count", f"{base}..HEAD", "--", *paths)
    if count is None:
        return f"measured at {base}, which is not in this repository"
    since = f"{count} commit{'' if count == '1' else 's'} since"
    if mark:
        return f"measured at {base} with uncommitted changes, {since}"
    return "" if count == "0" else f"measured at {base}, {since}"


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where it is not installed or fails."""
    # An unpacked archive may lie in the repository of another project, which says nothing about it.
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = ["git", *arguments]
    try:
        done = subprocess.run(
            command, check=True, cwd=root, env=env, capture_output=True, text=True
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
