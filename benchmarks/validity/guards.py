"""Live guards on logs that others wrote: what they interrupt, and what they would have saved.

    .venv-integrations/bin/python -m benchmarks.validity.guards
    python -m benchmarks.validity.guards --only watch claude-code --list

Each labelled log is replayed through the conversion of each host's guard: the host's own objects
are made of it, and the guard is asked before each answer of the model, as in the host. The rules
of other guards, from their documentation, are run on the same logs. A healthy log may never be
stopped; a nudge in one is listed with its class. `CHIMERA_REPOSITORIES` names the folder with the
public repositories; hosts whose packages are not installed are left out, and named.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.stuck.rules import RULES
from benchmarks.stuck.rules.seam import Rule
from benchmarks.validity import wild
from benchmarks.validity.guard_hosts import HOSTS, Ask
from benchmarks.validity.loop_logs import Log
from chimeralab import Trajectory
from chimeralab.core.records import Turn, count_tokens
from chimeralab.detection.seam import Observation

PEERS = {
    f"rules of {name}": rule
    for name, rule in RULES.items()
    if name.startswith(("OpenHands", "gemini-cli", "qwen-code", "OpenClaw"))
}
SETS = ("agents", "labelled", "tau-bench", "agents-dev", "agents-held")


class Interruption(NamedTuple):
    """What a guard did at a message of the log, by class."""

    action: str
    kind: str
    position: int
    message: str = ""


def replay(asks: Iterable[Ask]) -> list[Interruption]:
    """What a guard does, up to its stop."""
    found = list[Interruption]()
    for position, action in asks:
        if action is not None:
            kind = action.loop.kind
            found.append(Interruption(action.action, kind, position, action.message))
            if action.action == "stop":
                break
    return found


def first_alarm(rule: Rule, talk: Trajectory) -> list[Interruption]:
    """The first thing that another guard does: warn, ask, nudge or stop."""
    stream = rule.start()
    for position, turn in enumerate(talk.turns, start=1):
        if stream.update(Observation(turn)).collapsed:
            return [Interruption("alarm", rule.name, position)]
    return []


def tokens_between(turns: Sequence[Turn], first: int, last: int) -> int:
    """What the messages after the first position cost, up to the last; estimated where unknown."""
    results = sum(len(c.result or "") for turn in turns[first:last] for c in turn.calls) // 4
    return results + sum(count_tokens(turn).output or 0 for turn in turns[first:last])


class Tally:
    """How one guard did on all logs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.healthy = self.stopped = self.stuck = self.nudged = self.in_time = 0
        self.kinds: Counter[str] = Counter()
        self.nudged_logs = 0
        self.wasted = self.saved = 0
        self.delays: list[int] = []
        self.listed: list[str] = []

    def add(self, log: Log, found: Sequence[Interruption]) -> None:
        if not log.stuck:
            self.healthy += 1
            self.nudged_logs += bool(found)
            self.stopped += any(each.action == "stop" for each in found)
            self.kinds.update({each.kind for each in found})
            for each in found:
                where = f"{log.group} {log.talk.id[-60:]}"
                self.listed.append(
                    f"    {each.action} at {each.position} of {len(log.talk.turns)}: {where}:"
                    f" {each.kind}: {each.message[:160]!r}"
                )
            return
        first, last = log.spans[0]
        here = [each for each in found if each.position >= first - 1]
        waste = tokens_between(log.talk.turns, first, last)
        self.stuck += 1
        self.wasted += waste
        if not here:
            self.listed.append(
                f"    missed: {log.group} {log.talk.id[-60:]} {log.host} {log.spans}"
            )
            return
        at = here[0].position
        self.nudged += 1
        self.in_time += at <= (first + last) / 2
        self.saved += tokens_between(log.talk.turns, min(at, last), last)
        self.delays.append(at - first)

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        share = 100 * self.saved / max(1, self.wasted)
        return (
            f"{self.name:26} healthy {self.healthy}: stopped {self.stopped}, interrupted"
            f" {self.nudged_logs} ({100 * self.nudged_logs / max(1, self.healthy):.1f} %)"
            f"{f' [{kinds}]' if kinds else ''}; stuck {self.stuck}: interrupted {self.nudged},"
            f" before half of the waste {self.in_time}, tokens saved {share:.0f} %, median delay"
            f" {median(self.delays or [0]):g} messages"
        )


def collect(names: Iterable[str]) -> list[Log]:
    """The labelled logs on this machine."""
    logs, away = list[Log](), 0
    for name in names:
        for log in wild.SETS[name]():
            if log is None:
                away += 1
            elif any(turn.calls for turn in log.talk.turns) or log.group != "selfchats":
                logs.append(log)
    print(f"{len(logs)} logs, {sum(log.stuck for log in logs)} stuck; not here: {away}")
    return logs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="every interruption of a healthy log")
    parser.add_argument("--only", nargs="+", default=[*HOSTS, *PEERS], help="guards")
    parser.add_argument("--sets", nargs="+", default=SETS, help="sets of logs")
    asked = parser.parse_args()
    logs = collect(asked.sets)
    for name in asked.only:
        tally = Tally(name)
        try:
            for log in logs:
                peer = PEERS.get(name)
                found = first_alarm(peer, log.talk) if peer else replay(HOSTS[name](log.talk))
                tally.add(log, found)
        except ImportError as error:
            print(f"{name:26} left out: {error}")
            continue
        print(tally, flush=True)
        print(*(tally.listed if asked.list else ()), sep="\n", end="\n" if asked.list else "")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
