"""Calls that an agent writes into its text are calls; an example of one in prose is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chimeralab
from chimeralab import readers
from chimeralab.core.records import Call, Trajectory, Turn
from chimeralab.detection.seam import list_judged_turns
from chimeralab.readers import plain
from chimeralab.readers.seam import CALLS_READ
from chimeralab.readers.text_calls import read_calls

FILES = ("a.py", "b.py", "c.py")
SYSTEM = {"role": "system", "content": "You fix bugs in a shell."}
TASK = {"role": "user", "content": "The tests fail. Find out why."}


def function(name: str) -> str:
    body = f"<parameter=command>\ncat {name}\n</parameter>\n<parameter=quiet>true</parameter>"
    return f"Let me read {name}.\n\n<function=bash>\n{body}\n</function>"


# How an agent asks for a file, how the program answers, and the call that is meant.
DIALECTS: dict[str, tuple[Callable[[str], str], Callable[[str], str], Callable[[str], Call]]] = {
    "function tags": (
        function,
        lambda name: f"OBSERVATION:\ntext of {name}",
        lambda name: Call("bash", {"command": f"cat {name}", "quiet": "true"}),
    ),
    "function tags of OpenHands": (
        function,
        lambda name: f"EXECUTION RESULT of [bash]:\ntext of {name}",
        lambda name: Call("bash", {"command": f"cat {name}", "quiet": "true"}),
    ),
    "tool_call with JSON": (
        'I read.\n<tool_call>\n{{"name": "read", "arguments": {{"path": "{}"}}}}\n'
        "</tool_call>".format,
        lambda name: f"<tool_response>\ntext of {name}\n</tool_response>",
        lambda name: Call("read", {"path": name}),
    ),
    "fenced bash": (
        lambda name: f"THOUGHT: I should read {name}.\n\n```bash\ncat {name}\n```",
        lambda name: f"<returncode>0</returncode>\n<output>\ntext of {name}\n</output>",
        lambda name: Call("bash", f"cat {name}"),
    ),
    "tool_call as Python prints it": (
        "I read.\n<tool_call>\n{{'arguments': {{'path': '{}', 'all': None}}, 'name': 'read'}}\n"
        "</tool_call>".format,
        lambda name: f"<tool_response>\ntext of {name}\n</tool_response>",
        lambda name: Call("read", {"path": name, "all": None}),
    ),
    "fenced with a name of its own": (
        lambda name: f"THOUGHT: I should read {name}.\n\n```mswea_bash_command\ncat {name}\n```",
        lambda name: f"<returncode>0</returncode>\n<output>\ntext of {name}\n</output>",
        lambda name: Call("mswea_bash_command", f"cat {name}"),
    ),
    "fenced bash, command output": (
        lambda name: f"I should read {name}.\n```bash\ncat {name}\n```",
        lambda name: f"Command output:\ntext of {name}",
        lambda name: Call("bash", f"cat {name}"),
    ),
    "action and its input": (
        lambda name: f'Thought: I need {name}.\nAction: read\nAction Input: {{"path": "{name}"}}',
        lambda name: f"Observation: text of {name}",
        lambda name: Call("read", {"path": name}),
    ),
    "action in capitals, answered by a world": (
        lambda name: f"THOUGHT: I look for {name}.\nACTION: open {name}",
        lambda name: f"You see the text of {name}.",
        lambda name: Call("open", f"open {name}"),
    ),
    "action as a function": (
        lambda name: f"Thought: I need {name}.\nAction: read({name})",
        lambda name: f"Observation: text of {name}",
        lambda name: Call("read", name),
    ),
    "act with a block": (
        lambda name: f"Think: I need {name}.\n\nAct: bash\n\n```bash\ncat {name}\n```",
        lambda name: f"The output of the OS:\ntext of {name}",
        lambda name: Call("bash", f"cat {name}"),
    ),
    "execute tags": (
        lambda name: f"I read {name}.\n<execute>\nopen('{name}').read()\n</execute>",
        lambda name: f"Observation:\n'text of {name}'",
        lambda name: Call("execute", f"open('{name}').read()"),
    ),
    "elements": (
        lambda name: f"I read {name}.\n\n<read_file>\n<path>{name}</path>\n</read_file>",
        lambda name: f"[read_file for '{name}'] Result:\ntext of {name}",
        lambda name: Call("read_file", {"path": name}),
    ),
}  # fmt: skip


def messages(kind: str) -> list[dict[str, str]]:
    ask, answer, _ = DIALECTS[kind]
    told = [SYSTEM, TASK]
    for name in FILES:
        told.append({"role": "assistant", "content": ask(name)})
        told.append({"role": "user", "content": answer(name)})
    return [*told, {"role": "assistant", "content": "The import in b.py is wrong."}]


def as_plain(told: list[dict[str, str]]) -> Any:
    return {"turns": [{"speaker": each["role"], "text": each["content"]} for each in told]}


def as_sharegpt(told: list[dict[str, str]]) -> Any:
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    entries = [{"from": names[each["role"]], "value": each["content"]} for each in told]
    return {"conversations": entries}


def as_rows(told: list[dict[str, str]]) -> str:
    rows = [{"speaker": each["role"], "text": each["content"]} for each in told]
    return "".join(json.dumps(row) + "\n" for row in rows)


LAYOUTS: dict[str, Callable[[list[dict[str, str]]], Any]] = {
    "openai": lambda told: {"messages": told},
    "plain": as_plain,
    "sharegpt": as_sharegpt,
    "rows": as_rows,
}


def read(folder: Path, value: Any) -> Trajectory:
    log = folder / "log.jsonl"
    log.write_text(value if isinstance(value, str) else json.dumps(value) + "\n", encoding="utf-8")
    (talk,) = readers.read(log)
    return talk


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", DIALECTS)
def test_written_calls_are_calls_with_their_results(tmp_path: Path, kind: str, layout: str) -> None:
    _, answer, meant = DIALECTS[kind]
    talk = read(tmp_path, LAYOUTS[layout](messages(kind)))
    calls = [call for turn in talk.turns for call in turn.calls]
    assert [(call.name, call.arguments) for call in calls] == [
        (meant(name).name, meant(name).arguments) for name in FILES
    ]
    assert [call.result for call in calls] == [answer(name) for name in FILES]
    assert talk.metadata[CALLS_READ] == 3
    assert len(talk.turns) == 9
    assert [turn.spoken for turn in talk.turns if turn.role == "tool"] == [False] * 3
    assert not any("```" in turn.text or "<" in turn.text for turn in list_judged_turns(talk))


@pytest.mark.parametrize("kind", DIALECTS)
def test_an_agent_that_reads_one_file_after_the_other_does_not_loop(
    tmp_path: Path, kind: str
) -> None:
    talk = read(tmp_path, {"messages": messages(kind)})
    assert not chimeralab.detect(talk, detector=None).looping


def test_an_agent_that_writes_the_same_call_again_and_again_loops(tmp_path: Path) -> None:
    step = [
        {"role": "assistant", "content": function("a.py")},
        {"role": "user", "content": "OBSERVATION:\ntext of a.py"},
    ]
    talk = read(tmp_path, {"messages": [TASK, *step * 5]})
    assert any(loop.stream == "calls" for loop in chimeralab.detect(talk, detector=None).loops)


def test_thoughts_actions_and_observations_in_one_message_are_calls(tmp_path: Path) -> None:
    steps = "".join(
        f"Thought: I need {name}.\nAction: read\nAction Input: {name}\n"
        f"Observation: text of {name}\n"
        for name in FILES
    )
    talk = read(
        tmp_path,
        {"messages": [TASK | {"content": "Use Action: and Action Input: lines.\nAction: the tool"},
                      {"role": "assistant", "content": f"{steps}Final Answer: b.py"}]},
    )  # fmt: skip
    assert [(call.arguments, call.result) for call in talk.turns[1].calls] == [
        (name, f"text of {name}") for name in FILES
    ]
    assert talk.turns[1].text.endswith("Final Answer: b.py")


def test_code_that_a_team_leaves_to_its_terminal_is_a_call(tmp_path: Path) -> None:
    """As in the Who&When set: named agents, of whom one runs the code of the others."""
    code, printed = (
        "   ```python\n   print(4)\n   ``` ",
        "exitcode: 0 (execution succeeded)\nCode: 4",
    )
    history = [
        {"role": "assistant", "name": "Excel_Expert", "content": f"Let me count.\n{code}"},
        {"role": "user", "name": "Computer_terminal", "content": printed},
        {"role": "user", "name": "Verification_Expert", "content": "It is 4."},
    ]
    talk = read(tmp_path, {"history": history, "question_ID": "q", "mistake_step": "1"})
    assert [turn.agent for turn in talk.turns] == ["Excel_Expert", None, "Verification_Expert"]
    assert [call for turn in talk.turns for call in turn.calls] == [
        Call("python", "   print(4)", printed)
    ]


def test_an_unmarked_answer_is_a_result_too(tmp_path: Path) -> None:
    told = messages("function tags")
    told[5] = {"role": "user", "content": "Your command ran successfully without output."}
    talk = read(tmp_path, {"messages": told})
    assert talk.turns[4].calls[0].result == "Your command ran successfully without output."


def test_a_person_who_answers_the_last_call_is_not_a_result(tmp_path: Path) -> None:
    told = messages("function tags")[:-1]
    told += [
        {"role": "assistant", "content": "<function=finish>\n</function>"},
        {"role": "user", "content": "Thank you! Now write a test."},
    ]
    talk = read(tmp_path, {"messages": told})
    assert (talk.turns[-1].role, talk.turns[-1].spoken) == ("user", True)
    assert talk.turns[-2].calls == (Call("finish", {}),)


def test_a_call_cut_off_at_its_end_is_a_call(tmp_path: Path) -> None:
    told = messages("function tags")[:3]
    told[2] = told[2] | {"content": told[2]["content"].removesuffix("\n</function>")}
    told.append({"role": "user", "content": "OBSERVATION:\ntext"})
    assert read(tmp_path, {"messages": told}).turns[2].calls[0].name == "bash"


QUESTION = {"role": "user", "content": "How do I call a tool with this model?"}
EXAMPLES = {
    "function in prose": "Write <function=ls><parameter=path>a</parameter></function> and stop.",
    "function in a block": f"Like this:\n```xml\n{function('a.py')}\n```",
    "tool_call in a block": 'So:\n```\n<tool_call>{"name": "a", "arguments": {}}</tool_call>\n```',
    "fenced bash": "Run this:\n```bash\npip install chimera-lab\n```\nand tell me what it says.",
    "fenced bash at the end": "Run this:\n\n```bash\npytest -x\n```",
    "an action": "Plan for today.\nAction: call the plumber.\nNothing else.",
    "an element": "Add this:\n<my_widget>\n<title>Hi</title>\n</my_widget>\nto the page.",
}


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("reply", ["Thanks, it says: no such file.", "OK.", None])
def test_prose_that_shows_an_example_is_left_alone(
    tmp_path: Path, kind: str, reply: str | None
) -> None:
    told = [QUESTION, {"role": "assistant", "content": EXAMPLES[kind]}]
    if reply:
        told += [{"role": "user", "content": reply}, {"role": "assistant", "content": "Good."}]
    talk = read(tmp_path, {"messages": told})
    assert [turn.text for turn in talk.turns] == [each["content"] for each in told]
    assert not any(turn.calls for turn in talk.turns)
    assert CALLS_READ not in talk.metadata


def test_a_log_with_calls_of_its_own_is_left_alone(tmp_path: Path) -> None:
    call = {"id": "1", "function": {"name": "ls", "arguments": "{}"}}
    own = {"role": "assistant", "content": None, "tool_calls": [call]}
    talk = read(tmp_path, {"messages": [*messages("fenced bash"), own]})
    assert [call.name for turn in talk.turns for call in turn.calls] == ["ls"]


def test_a_log_of_ours_is_left_alone(tmp_path: Path) -> None:
    told = messages("function tags")
    talk = Trajectory("a", tuple(Turn(each["content"], each["role"]) for each in told))
    assert read(tmp_path, plain.dumps(talk) + "\n").turns == talk.turns


def test_detect_says_that_calls_were_read_from_text(
    tmp_path: Path, chimera: Callable[..., Any]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"messages": messages("function tags")}) + "\n", encoding="utf-8")
    assert "calls read from text in 1 conversation" in chimera("detect", log).err


@pytest.mark.parametrize(
    "part",
    ["<tool_call>{", "<tool_call>", "<function=a>", "<a_b><c>", "```bash\n", "Action: ", "(", "\n",
     "<execute>", "Observation:\n", "[tool_use:a {"],
)  # fmt: skip
def test_hostile_text_is_searched_in_linear_time(part: str) -> None:
    size = 200_000 // len(part)
    hostile = Turn(part * size, "assistant", "assistant")
    answer = Turn("Observation:\n" * 20_000, "user", "user")
    found = read_calls(Trajectory("a", (hostile, answer, hostile, answer)))
    assert len(found.turns) == 4


def test_call_that_was_cut_off_is_a_call(tmp_path: Path) -> None:
    told = messages("elements")
    told[2]["content"] = (
        "I read a.py.\n\n<read_file>\n<path>a.py</path>\n<note>I want\n\n[Cut off.]"
    )
    told[3]["content"] += "\n<environment_details>\n12:00\n</environment_details>"
    first, *_ = [call for turn in read(tmp_path, {"messages": told}).turns for call in turn.calls]
    cut = {"path": "a.py", "note": "I want\n\n[Cut off.]"}
    assert first == Call("read_file", cut, "[read_file for 'a.py'] Result:\ntext of a.py")


def test_action_that_one_of_many_messages_names_is_prose(tmp_path: Path) -> None:
    told = [SYSTEM, {"role": "user", "content": "Action: click the button. What happens?"}]
    for n in range(8):
        told.append({"role": "assistant", "content": f"Step {n} works."})
        told.append({"role": "user", "content": f"And step {n + 1}?"})
    told.append({"role": "assistant", "content": "ACTION: create a file `task.md` with the list."})
    assert not any(turn.calls for turn in read(tmp_path, {"messages": told}).turns)
