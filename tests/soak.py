"""Run `make test` repeatedly, on an idle and on a busy machine, and record each run.

    make soak                           five idle runs and two with four busy processes
    make soak SOAK="--quiet 1 --loaded 0"

A run is recorded in `soak/runs.jsonl` with its commit and result as soon as it has ended. Runs of
this commit that are recorded already are not repeated, so an interrupted soak can be continued. It
stops at the first red run: a test that fails once is to be fixed or deleted.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path("soak")
RECORD = FOLDER / "runs.jsonl"
# A busy machine may take four times as long for a test; the limit only catches a hang.
LOADED_TIMEOUT = "--timeout=1200"
BUSY = "while True: pass"


def main() -> int:
    options = _options()
    commit = _git("rev-parse", "--short", "HEAD")
    if _git("status", "--porcelain"):
        print("soak: commit first; a run of uncommitted changes can't be recorded", file=sys.stderr)
        return 2
    subprocess.run(["make", "setup"], check=True)
    FOLDER.mkdir(exist_ok=True)
    for load, wanted in ((0, options.quiet), (options.load, options.loaded)):
        earlier = [run for run in _runs() if run["commit"] == commit]
        if any(run["code"] for run in earlier):
            print(*map(_line, earlier), sep="\n")
            return 1
        done = sum(run["load"] == load for run in earlier)
        for number in range(done + 1, wanted + 1):
            name = f"{commit}, run {number} of {wanted}, " + (
                f"with {load} busy processes" if load else "idle"
            )
            print(f"{name} …", flush=True)
            if not _run(commit, load, FOLDER / f"{commit}-{load}-{number}.log"):
                print("red: fix or delete what failed, commit, and start again")
                return 1
    print("all green:", *map(_line, (run for run in _runs() if run["commit"] == commit)), sep="\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--quiet", type=int, default=5, help="quiet runs (5)")
    parser.add_argument("--loaded", type=int, default=2, help="runs with busy processes (2)")
    parser.add_argument("--load", type=int, default=4, help="how many busy processes (4)")
    return parser.parse_args()


def _run(commit: str, load: int, log: Path) -> bool:
    """Run `make test` once and record it; whether it was green."""
    environment = os.environ | ({"PYTEST_ADDOPTS": LOADED_TIMEOUT} if load else {})
    began, started = datetime.now(UTC), time.monotonic()
    with busy_processes(load), log.open("w") as output:
        code = subprocess.run(
            ["make", "test"], stdout=output, stderr=subprocess.STDOUT, env=environment, check=False
        ).returncode
    text = log.read_text(encoding="utf-8", errors="replace")
    run = {
        "commit": commit,
        "load": load,
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started),
        "code": code,
        "summary": next(iter(re.findall(r"^=+ (.*\bpassed\b.*?) =+$", text, re.M)[-1:]), ""),
        "failed": re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M),
    }
    with RECORD.open("a", encoding="utf-8") as record:
        record.write(json.dumps(run) + "\n")
    print(_line(run), flush=True)
    return code == 0


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep the cores busy for as long as the block runs."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _runs() -> list[dict[str, Any]]:
    if not RECORD.is_file():
        return []
    return [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]


def _line(run: dict[str, Any]) -> str:
    result = "green" if run["code"] == 0 else f"RED {', '.join(run['failed']) or run['code']}"
    minutes, seconds = divmod(run["seconds"], 60)
    load = f"{run['load']} busy processes" if run["load"] else "quiet"
    head = f"{run['commit']}  {run['began']}  {load}"
    return f"{head}: {result}, {minutes} min {seconds} s, {run['summary']}"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
