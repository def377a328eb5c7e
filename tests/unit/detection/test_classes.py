"""Classes of tool loops, each on the shape in which users meet it."""

from collections.abc import Callable, Sequence

import pytest

from chimeralab import Call, Trajectory, Turn, detect
from chimeralab.core.records import Loop
from chimeralab.detection.loops import Loops, LoopStream

Calls = Sequence[Call]


def agent(calls: Calls) -> Trajectory:
    """A session in which each message makes one call."""
    return Trajectory("a", tuple(Turn("", "assistant", "assistant", calls=(c,)) for c in calls))


def loops_of(calls: Calls) -> tuple[Loop, ...]:
    return detect(agent(calls), detector=None).loops


def first(calls: Calls) -> Loop:
    loops = loops_of(calls)
    assert loops, "nothing was found"
    return loops[0]


def edits(count: int) -> list[Call]:
    states = ["timeout = 5", "timeout = 30"]
    changes = [(states[n % 2], states[1 - n % 2]) for n in range(count)]
    return [
        Call("edit", {"path": "a.toml", "old_string": old, "new_string": new}, f"Revision {n}.")
        for n, (old, new) in enumerate(changes)
    ]


def reading(files: int, rounds: int) -> list[Call]:
    names = [f"src/module_{n}.py" for n in range(files)]
    return [
        Call("read_file", {"path": name}, f"Contents of {name}: a long text of its own.")
        for _ in range(rounds)
        for name in names
    ]


QUERIES = ["loop detectors", "detecting loops", "loops in agents", "agent loop detection",
           "how to detect loops", "agents that loop", "loop finding", "stuck agents"]  # fmt: skip
NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split()
VERDICTS: dict[str, tuple[str, list[Call]]] = {
    "same call, same result": ("tool", [Call("ls", {"path": "."}, "a.txt")] * 5),
    "other description": (
        "tool",
        [Call("bash", {"command": "make", "description": q}, "make: up to date") for q in QUERIES],
    ),
    "duration in the result": (
        "tool",
        [Call("build", {}, f"Built nothing in {n}.3 s") for n in range(5)],
    ),
    "edited and undone": ("undo", edits(12)),
    "same error, another place": (
        "failure",
        [
            Call(
                "run", {"path": f"{name}.py"}, f"Error: {name}.py line {n}: cannot import settings"
            )
            for n, name in enumerate(NAMES)
        ],
    ),
    "unknown tools": (
        "failure",
        [Call(name, {}, f"Error: there is no tool named {name}") for name in NAMES[:6]],
    ),
    "no results": ("no-news", [Call("search", {"query": q}, "No results found.") for q in QUERIES]),
    "the same long result": (
        "no-news",
        [Call("search", {"query": q}, "1. A page about loops and how they end") for q in QUERIES],
    ),
    "patterns without a match": (
        "no-news",
        [Call("bash", {"command": f"grep -rn '{q}' src"}, "") for q in QUERIES],
    ),
    "an element that is not there": (
        "tool",
        [Call("click", {"selector": "#pay"}, "Timeout 30000ms exceeded while waiting for locator")]
        * 4,
    ),
    "details that are not there": (
        "tool",
        [Call("get_order_details", {"id": "A7"}, "Error: order A7 not found")] * 4,
    ),
    "output that never comes": (
        "tool",
        [
            Call("sh", {"command": command}, "rc=0\nEXIT=0\n" if "EXIT" in command else "rc=0\n")
            for command in (
                "cd /src && JDK=17 mvn test 2>&1 | tail -50",
                "cd /src && JDK=17 mvn test 2>&1",
                'cd /src && JDK=17 mvn test 2>&1; echo "EXIT=$?"',
                'mvn test > /tmp/out.txt 2>&1; echo "EXIT=$?"; cat /tmp/out.txt',
            )
        ],
    ),
    "code that prints nothing": (
        "tool",
        [
            Call("python", {"code": f"numbers = [1, 2, 3]\n{line}\nfor n in numbers: chr(n)\n"}, "")
            for line in ("found = []", "result = []", "letters = []")
        ],
    ),
    "plan reworded": (
        "no-news",
        [
            Call("todo_write", {"todos": [{"content": q, "status": "pending"}]}, "Saved.")
            for q in QUERIES
        ],
    ),
    "20 files four times": ("reread", reading(20, 4)),
    "45 files four times": ("reread", reading(45, 4)),
    "handed over and back": (
        "handover",
        [
            Call(
                f"transfer_to_{'billing' if n % 2 else 'support'}", {"reason": QUERIES[n % 8]}, "ok"
            )
            for n in range(10)
        ],
    ),
    "failing test after different edits": (
        "test-fix",
        [
            call
            for n in range(8)
            for call in (
                Call(
                    "edit",
                    {"path": "a.py", "old_string": f"x{n}", "new_string": f"y{n}"},
                    f"ok {n}",
                ),
                Call("bash", {"command": "pytest -q"}, "FAILED test_a: assert 1 == 2\n1 failed"),
            )
        ],
    ),
}


@pytest.mark.parametrize("shape", VERDICTS)
def test_loop_is_named_by_its_class(shape: str) -> None:
    kind, calls = VERDICTS[shape]
    loop = first(calls)
    assert (loop.kind, loop.level, loop.stream) == (kind, "verdict", "calls")
    assert [each.kind for each in loops_of(calls)] == [kind]


WAITING: dict[str, Callable[[int], Call]] = {
    "unchanged status": lambda n: Call("get_job_status", {"id": 7}, "running"),
    "elapsed time": lambda n: Call("job_status", {"id": 7}, f"running, elapsed {10 * n} s"),
    "sleep": lambda n: Call("bash", {"command": "sleep 30 && kubectl get pods"}, "web-0 Pending"),
    "output of a process": lambda n: Call("BashOutput", {"bash_id": "1"}, ""),
    "scrolling": lambda n: Call("browser", {"action": "scroll_down"}, "ok"),
    "rate limit": lambda n: Call("fetch", {"page": n}, "Error 429: too many requests"),
    "server error": lambda n: Call("fetch", {"page": 1}, "503 Service Unavailable"),
}


@pytest.mark.parametrize("shape", WAITING)
def test_waiting_is_a_notice_and_never_a_verdict(shape: str) -> None:
    found = loops_of([WAITING[shape](n) for n in range(50)])
    assert {(loop.kind, loop.level) for loop in found} == {("waiting", "notice")}


HEALTHY: dict[str, list[Call]] = {
    "paging": [Call("next_page", {}, f"Page {n}: {NAMES[n % 12]} and {n * n}") for n in range(50)],
    "growing progress": [Call("status", {}, f"{n} % done") for n in range(50)],
    "renames": [Call("rename", {"path": f"{n}.txt", "to": f"{n}.md"}, "ok") for n in range(12)],
    "edits": [
        Call("edit", {"path": f"{n}.py", "old_string": "a", "new_string": "b"}, "Updated.")
        for n in range(12)
    ],
    "form fields": [Call("fill", {"field": n, "value": n}, "ok") for n in NAMES],
    "fewer failures after each edit": [
        call
        for n in range(9, 0, -1)
        for call in (
            Call("edit", {"path": "a.py", "old_string": f"x{n}", "new_string": f"y{n}"}, f"ok {n}"),
            Call("bash", {"command": "pytest -q"}, f"{n} failed"),
        )
    ],
    "check that works after each edit": [
        call
        for n in range(9)
        for call in (
            Call("edit", {"path": "a.py", "old_string": f"x{n}", "new_string": f"y{n}"}, f"ok {n}"),
            Call("bash", {"command": "npm run lint"}, "No warnings or errors"),
        )
    ],
    "edits whose arguments the log leaves out": [
        call
        for n in range(9)
        for call in (Call("edit", None, "ok"), Call("bash", {"command": "npm run lint"}, "Clean."))
    ],
    "files written one after the other": [
        Call(
            "bash",
            {"command": f"cat <<'EOF' > {name}.py\nimport requests\nprint({name!r})\nEOF"},
            "",
        )
        for name in NAMES
    ],
    "many files once": reading(60, 1),
    "files read again after work": reading(20, 2),
    "different hand-overs": [Call(f"transfer_to_{name}", {}, "ok") for name in NAMES],
}


@pytest.mark.parametrize("shape", HEALTHY)
def test_work_is_not_a_loop(shape: str) -> None:
    assert [loop for loop in loops_of(HEALTHY[shape]) if loop.level == "verdict"] == []


def test_identical_calls_in_one_message_count_once() -> None:
    twins = Trajectory("a", (Turn("", "a", "assistant", calls=(Call("ls", {}, "x"),) * 6),))
    assert detect(twins, detector=None).loops == ()


def test_empty_messages_are_a_loop() -> None:
    talk = Trajectory("a", tuple(Turn("", "assistant", "assistant") for _ in range(8)))
    (loop,) = detect(talk, detector=None).loops
    assert (loop.kind, loop.level, loop.began, loop.noticed) == ("silence", "verdict", 1, 4)


def test_empty_messages_after_repeated_calls_are_a_loop_too() -> None:
    call = Call("bash", {"command": "pytest -q"}, "1 failed")
    turns = [Turn("", "assistant", "assistant", calls=(call,))] * 3
    turns += [Turn("", "assistant", "assistant") for _ in range(6)]
    loops = detect(Trajectory("a", tuple(turns)), detector=None).loops
    assert [(loop.kind, loop.stream) for loop in loops] == [("tool", "calls"), ("silence", "all")]


def test_texts_of_messages_that_act_are_not_compared() -> None:
    turns = tuple(
        Turn(f"Let's look at {name}.py next.", "assistant", "assistant",
             calls=(Call("read", {"path": f"{name}.py"}),))
        for name in NAMES
    )  # fmt: skip
    assert not detect(Trajectory("a", turns), detector=None).looping
    assert detect(Trajectory("a", turns), detector=None, loops=Loops(version=1)).looping


def test_short_sentence_of_one_speaker_is_a_loop() -> None:
    turns = []
    for n in range(9):
        turns.append(Turn(f"Tell me about {NAMES[n]} and why it matters to {NAMES[-n]}.", "user"))
        turns.append(Turn("I can't say that.", "bot"))
    assert detect(Trajectory("a", tuple(turns)), detector=None).looping


UNREADABLE = 'Let me list the files. bash{"command": "ls"}'
REFUSED = "Your output was not formatted correctly: you have to call exactly one tool."


def exchange(answers: Sequence[str], text: str = UNREADABLE) -> list[Turn]:
    """A session that has made one call; then the agent says the same after each answer."""
    call = Call("ls", {"path": "."}, "a.txt")
    turns = [Turn("", "assistant", "assistant", calls=(call,)), Turn(text, "assistant")]
    for answer in answers:
        turns += [Turn(answer, "user"), Turn(text, "assistant")]
    return turns


@pytest.mark.parametrize("answer", [REFUSED, ""], ids=["refused", "no answer in the log"])
def test_same_message_with_the_same_answer_is_a_loop_at_the_third_time(answer: str) -> None:
    (loop,) = detect(Trajectory("a", tuple(exchange([answer] * 2))), detector=None).loops
    assert (loop.level, loop.began, loop.noticed) == ("verdict", 2, 6)


@pytest.mark.parametrize(
    "turns",
    [
        exchange([REFUSED]),
        exchange([REFUSED, "You have one more try."]),
        exchange(["###TRANSFER###"] * 2, text="Hold on."),
        exchange([REFUSED] * 2)[1:],
    ],
    ids=["twice", "another answer", "few words", "a chat without calls"],
)
def test_same_message_is_not_yet_a_loop(turns: list[Turn]) -> None:
    assert not detect(Trajectory("a", tuple(turns)), detector=None).looping


THOUGHT = "I should check the configuration once more before I answer the question. "


def test_reasoning_that_is_copied_is_a_loop_of_its_own() -> None:
    turns = [
        Turn(f"Answer {n}: {NAMES[n]}.", "assistant", "assistant", reasoning=THOUGHT)
        for n in range(6)
    ]
    found = detect(Trajectory("a", tuple(turns)), detector=None).loops
    assert [(loop.kind, loop.stream, loop.level) for loop in found] == [
        ("verbatim", "reasoning", "verdict")
    ]


def test_reasoning_that_repeats_itself_is_a_loop() -> None:
    talk = Trajectory("a", (Turn("Done.", "assistant", "assistant", reasoning=THOUGHT * 40),))
    (loop,) = detect(talk, detector=None).loops
    assert (loop.kind, loop.stream) == ("within-turn", "reasoning")


def test_notice_becomes_the_verdict_of_one_loop() -> None:
    calls = [Call("ls", {"path": "."}, "a.txt")] * 5
    stream = LoopStream()
    levels = []
    for turn in agent(calls).turns:
        stream.update(turn)
        levels.append([loop.level for loop in stream.loops])
    assert levels == [[], ["notice"], ["verdict"], ["verdict"], ["verdict"]]
    assert stream.loops[0].noticed == 3


def test_version_1_is_kept() -> None:
    assert Loops(version=1).standard == "loops-1"
    assert Loops(version=1).changed == {}
    assert Loops().standard == "loops-2"
