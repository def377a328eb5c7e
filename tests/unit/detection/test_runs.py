"""Agents of one run that repeat each other's work."""

from chimeralab import Call, Trajectory, Turn
from chimeralab.integrations.watch import Watch

FILES = [f"src/module_{n}.py" for n in range(9)]


def reading(files: list[str], of: str = "") -> tuple[Turn, ...]:
    return tuple(
        Turn("", "a", "assistant", spoken=False,
             calls=(Call("read_file", {"path": name}, f"Contents of {name} {of}"),))
        for name in files
    )  # fmt: skip


def test_third_agent_that_does_the_same_is_told_who_did() -> None:
    watch, told = Watch(), {}
    for name in ("parent", "child-1", "child-2", "child-3"):
        for n in range(1, len(FILES) + 1):
            found = watch.follow(Trajectory(name, reading(FILES[:n])), name, run="run-1")
            if found:
                told[name] = n, found
    assert list(told) == ["child-2", "child-3"], "the second may have to"
    at, found = told["child-2"]
    assert (at, found.action, found.loop.stream, found.loop.kind) == (6, "nudge", "run", "reread")
    assert "have done this before, since message 1: “parent, child-1”. Use" in found.message
    assert "“parent, child-1, child-2”" in told["child-3"][1].message


def test_agents_of_other_runs_and_agents_with_work_of_their_own_are_left_alone() -> None:
    watch = Watch()
    for n in range(5):
        talk = Trajectory("same", reading(FILES))
        assert watch.follow(talk, f"agent-{n}", run=f"run-{n}") is None
        assert watch.follow(talk, f"agent-{n}") is None
    for n in range(5):  # the same five files first, as agents do, and then their own
        own = [*FILES[:5], *(f"own_{n}_{i}.py" for i in range(20))]
        assert watch.follow(Trajectory("own", reading(own)), f"agent-{n}", run="one") is None
    for n in range(5):
        changed = Trajectory("changed", reading(FILES, of=f"version {n}"))
        assert watch.follow(changed, f"agent-{n}", run="two") is None
