"""What the conversations of one run have done: whether an agent repeats the work of another."""

from collections import Counter, OrderedDict, deque
from typing import NamedTuple

from chimeralab.detection.classes import MAX_READ, MIN_REREAD, ROUND, ToolStep
from chimeralab.detection.identity import digest


class SharedWork(NamedTuple):
    """How many agents have done the same by now, since which message of the last, and who."""

    times: int
    first: int
    names: tuple[str, ...]


class RunWork:
    """The questions that the agents of a run have asked, with their answers.

    As with re-reading in one conversation, a set of at least six of the last eight counts; the
    second agent who does the same may have to, the third is a loop.
    """

    def __init__(self) -> None:
        # By call and answer, the agents who made it, in their order.
        self._known: OrderedDict[tuple[str, str], list[str]] = OrderedDict()
        self._last: dict[str, deque[tuple[tuple[str, str], int]]] = {}

    def add(self, name: str, position: int, step: ToolStep) -> SharedWork | None:
        """Take in a call of an agent; return whose work its last calls repeat, if anybody's."""
        last = self._last.setdefault(name, deque(maxlen=ROUND))
        if step.changes or step.waits or step.failed or not step.result:
            return None
        key = digest(step.identity), digest(step.answer)
        agents = self._known.pop(key, [])
        self._known[key] = agents if name in agents else [*agents, name]
        if len(self._known) > MAX_READ:
            self._known.popitem(last=False)
        if key not in {each for each, _ in last}:
            last.append((key, position))
        earlier = [
            (at, agents[: agents.index(name)])
            for each, at in last
            if name in (agents := self._known.get(each, []))
        ]
        repeated = [(at, agents) for at, agents in earlier if agents]
        if len(repeated) < MIN_REREAD:
            return None
        counts = sorted((len(agents) for _, agents in repeated), reverse=True)
        who = Counter(agent for _, agents in repeated for agent in agents)
        names = tuple(agent for agent, _ in who.most_common(3))
        return SharedWork(1 + counts[MIN_REREAD - 1], repeated[0][0], names)
