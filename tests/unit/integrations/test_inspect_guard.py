"""The Inspect hook nudges looping samples, then stops them, and ignores all others."""

import logging
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect-ai is an extra")

from inspect_ai import Task
from inspect_ai.log import EvalSample, resolve_sample_attachments
from inspect_ai.model import ModelOutput

from chimeralab import InputError
from chimeralab.integrations.inspect import guard, guarded
from tests.inspect_agent import agent, always, calls, run, says, scripted, submits


@pytest.fixture(autouse=True)
def _unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHIMERA_GUARD", raising=False)
    monkeypatch.setattr(guard.LoopGuard, "asked_for", False)


@pytest.fixture
def sample(tmp_path) -> Any:
    def ran(*outputs: ModelOutput, task: Task | None = None) -> EvalSample:
        log = run(task or agent(metadata=guarded()), scripted(*outputs), tmp_path / "logs")
        assert log.status == "success", log.error
        [sample] = log.samples or []
        return resolve_sample_attachments(sample)

    return ran


def asked(sample: EvalSample) -> list[list[Any]]:
    """What the model was shown, call by call."""
    return [event.input for event in sample.events if event.event == "model"]


def nudges(sample: EvalSample) -> list[list[int]]:
    """At which places of each call there was a nudge."""
    return [
        [n for n, each in enumerate(shown) if (each.metadata or {}).get("chimeralab")]
        for shown in asked(sample)
    ]


STUCK = [calls("pytest -q")] * 12
# The system prompt and the task, and then two messages for each call.
AFTER_THREE = 2 + 2 * 3


def test_a_repeated_call_is_nudged_after_the_third_and_stopped_after_the_fifth(sample) -> None:
    stopped = sample(*STUCK)
    assert nudges(stopped) == [[], [], [], [AFTER_THREE], [AFTER_THREE]]
    told = asked(stopped)[3][AFTER_THREE]
    assert told.role == "user"
    assert "3 times with the same outcome since message 3" in told.text
    assert stopped.limit.type == "custom"
    assert "5 times with the same outcome since message 3" in stopped.limit.reason
    assert "pytest -q" in stopped.limit.reason
    events = [event.data["action"] for event in stopped.events if event.event == "info"]
    assert events == ["nudge", "stop"]


def test_agent_that_recovers_after_the_nudge_continues(sample) -> None:
    work = [calls(f"edit {name}") for name in ("setup.py", "a.py", "tests", "b.toml")]
    results = iter(["1 failed"] * 3 + ["wrote setup", "wrote a", "3 tests found", "wrote b"])
    task = agent(results, metadata=guarded())
    recovered = sample(*STUCK[:3], *work, submits(), task=task)
    assert recovered.limit is None
    assert [len(each) for each in nudges(recovered)] == [0, 0, 0, 1, 1, 1, 1, 1]


def test_polling_and_paging_are_ignored(sample) -> None:
    progress = (f"{n * 7} % of the files are copied" for n in range(12))
    polled = sample(*STUCK, submits(), task=agent(progress, metadata=guarded()))
    pages = (f"rows {n}0 to {n}9: {'abcdefghijkl'[n] * 5}" for n in range(12))
    turned = [calls(f"page {n}") for n in range(12)]
    paged = sample(*turned, submits(), task=agent(pages, metadata=guarded()))
    for left_alone in (polled, paged):
        assert left_alone.limit is None
        assert len(asked(left_alone)) == 13
        assert not any(nudges(left_alone))


def test_settings_are_per_tool(sample) -> None:
    ignored = guarded(tools={"bash": "ignore"})
    assert sample(*STUCK, submits(), task=agent(metadata=ignored)).limit is None
    patient = guarded(tools={"bash": {"repeats": 6}})
    assert len(asked(sample(*STUCK, task=agent(metadata=patient)))) == 8
    with pytest.raises(InputError, match="expected 'ignore' or"):
        guarded(tools={"bash": "never"})


def test_guard_is_opt_in(sample) -> None:
    assert len(asked(sample(*STUCK, submits(), task=agent()))) == 13


def test_one_variable_turns_it_on_for_all_tasks_and_off_for_all(sample, monkeypatch) -> None:
    monkeypatch.setenv("CHIMERA_GUARD", "on")
    assert len(asked(sample(*STUCK, task=agent()))) == 5
    kept_out = agent(metadata=guarded(enabled=False))
    assert len(asked(sample(*STUCK, submits(), task=kept_out))) == 13
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    assert len(asked(sample(*STUCK, submits()))) == 13


def test_an_error_inside_is_logged_once_and_the_sample_goes_on(sample, monkeypatch, caplog) -> None:
    def broken(message: Any) -> dict[str, Any]:
        raise RuntimeError("planted")

    monkeypatch.setattr(guard, "_plain_messages", lambda messages: map(broken, messages))
    with caplog.at_level(logging.WARNING):
        left_alone = sample(*STUCK, submits())
    assert left_alone.limit is None
    assert len(asked(left_alone)) == 13
    assert sum("planted" in record.getMessage() for record in caplog.records) == 1


def test_a_retried_call_is_not_nudged_twice(tmp_path, monkeypatch) -> None:
    failures = iter([False] * 3 + [True] + [False] * 9)
    shown: list[int] = []
    model = scripted(*STUCK)
    generate = model.api.generate

    async def flaky(input: Any, *rest: Any, **more: Any) -> Any:  # noqa: A002
        shown.append(sum(bool((each.metadata or {}).get("chimeralab")) for each in input))
        if next(failures):
            raise TimeoutError("planted")
        return await generate(input, *rest, **more)

    monkeypatch.setattr(model.api, "generate", flaky)
    monkeypatch.setattr(model.api, "should_retry", lambda error: isinstance(error, TimeoutError))
    monkeypatch.setattr(model.api, "retry_wait", lambda: lambda state: 0.0)
    log = run(agent(metadata=guarded()), model, tmp_path / "logs")
    assert log.samples[0].limit.type == "custom"
    assert shown == [0, 0, 0, 1, 1, 1]


def test_repeated_messages_are_stopped_too(tmp_path) -> None:
    outputs = [says("I will look at that file again.")] * 30
    log = run(agent(always(""), metadata=guarded()), scripted(*outputs), tmp_path / "logs")
    [sample] = log.samples or []
    assert sample.limit.type == "custom"
    assert "I will look at that file again" in sample.limit.reason


def test_repeated_solver_prompt_is_not_a_loop(sample) -> None:
    thoughts = [
        "The parser drops the last token of each line.",
        "I think the lexer swallows newlines before it emits them.",
        "Next, compare how the grammar treats comments.",
        "A fix could buffer one character and flush at the end.",
        "Unit tests for empty files are missing entirely.",
        "The changelog needs an entry for this release.",
    ]
    left_alone = sample(*map(says, thoughts), submits())
    prompts = [message.text for message in left_alone.messages if message.role == "user"][1:]
    assert len(prompts) == len(thoughts)
    assert len(set(prompts)) == 1
    assert left_alone.limit is None
    assert not any(nudges(left_alone))
