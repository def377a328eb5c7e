"""Scout scanners and Inspect scorers: their results, explanations and references."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("inspect_scout", reason="inspect-scout is an extra")

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample, read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser
from inspect_ai.solver import solver
from inspect_ai.tool import ToolCall
from inspect_scout import (
    Transcript,
    as_scorer,
    scan,
    scan_results_df,
    transcripts_from,
    validation_set,
)

import chimeralab
from chimeralab import InputError
from chimeralab.integrations.inspect import (
    collapse,
    collapse_rate,
    looping,
    loops,
    write_validation_set,
)
from tests.inspect_agent import agent, calls, run, says, scripted, submits

STUCK = [calls("pytest -q")] * 6
STEPS = ["read the log", "open the parser", "fix line 3"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with an agent that is stuck, and one with an agent that works."""
    folder = tmp_path_factory.mktemp("logs")
    scorers = [looping(), as_scorer(loops())]
    run(agent(scorer=scorers, name="stuck"), scripted(*STUCK, submits()), folder)
    results = iter(["a stack trace", "200 lines of code", "saved"])
    working = agent(results, scorer=scorers, name="working")
    run(working, scripted(*map(calls, STEPS), submits()), folder)
    return folder


def sample_of(logs: Path, task: str) -> EvalSample:
    [log] = logs.glob(f"*_{task}_*.eval")
    return read_eval_log(str(log)).samples[0]


def test_explanation_links_the_messages_of_a_loop(logs: Path) -> None:
    sample = sample_of(logs, "stuck")
    score = sample.scores["looping"]
    assert score.value == 1.0
    assert "Loop (tool) from [M3] to the end, noticed at [M7]" in score.explanation
    assert "which repeats [M3], [M5]" in score.explanation
    cited = {each["cite"]: each["id"] for each in score.metadata["scanner_references"]}
    assert cited == {f"[M{n}]": sample.messages[n - 1].id for n in (3, 5, 7)}


def test_scanner_and_scorer_agree(logs: Path) -> None:
    for task, value in (("stuck", True), ("working", False)):
        scores = sample_of(logs, task).scores
        assert scores["loops"].value == value
        assert scores["looping"].value == float(value)
        assert scores["loops"].explanation == scores["looping"].explanation


@pytest.mark.weights
def test_both_scanners_judge_logs_and_are_validated_by_ratings(logs: Path, tmp_path: Path) -> None:
    ratings, cases = tmp_path / "ratings.csv", tmp_path / "validation.csv"
    rows = ("stuck/fix_epoch_1,ann,1", "working/fix_epoch_1,ann,1", "gone/fix_epoch_1,ann,0")
    ratings.write_text("\n".join(("item,rater,label", *rows)), encoding="utf-8")
    assert write_validation_set(ratings, logs, cases) == 2
    uuids = {task: sample_of(logs, task).uuid for task in ("stuck", "working")}
    lines = cases.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,target"
    assert set(lines[1:]) == {f"{uuid},true" for uuid in uuids.values()}

    done = scan(
        [loops(), collapse()],
        transcripts=transcripts_from(str(logs)),
        scans=str(tmp_path / "scans"),
        validation={"loops": validation_set(cases)},
        max_processes=1,
        display="none",
    )
    assert done.complete
    results = scan_results_df(done.location).scanners
    found = results["loops"].set_index("transcript_id")
    assert found["value"].to_dict() == {uuids["stuck"]: True, uuids["working"]: False}
    # The rating of the second is wrong on purpose, and validation says so.
    right = {name: str(value).lower() for name, value in found["validation_result"].items()}
    assert right == {uuids["stuck"]: "true", uuids["working"]: "false"}
    assert set(found["scanner_name"]) == {"chimeralab/loops"}
    assert set(found["scanner_package_version"]) == {chimeralab.__version__}
    assert all("the rule needs 5" in words for words in results["collapse"]["explanation"])


def test_bad_ratings_are_rejected_in_a_sentence(logs: Path, tmp_path: Path) -> None:
    ratings, out = tmp_path / "ratings.csv", tmp_path / "validation.csv"
    for rows, words in (
        (("stuck/fix_epoch_1,ann,1", "stuck/fix_epoch_1,bo,0"), "name one: ann, bo"),
        (("other/fix_epoch_1,ann,1",), "ids must be the same"),
    ):
        ratings.write_text("\n".join(("item,rater,label", *rows)), encoding="utf-8")
        with pytest.raises(InputError, match=words):
            write_validation_set(ratings, logs, out)
    ratings.write_text("item,rater,label\nstuck/fix_epoch_1,ann,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="rater 'cy'"):
        write_validation_set(ratings, logs, out, rater="cy")
    assert not out.exists()


async def _scanned(scanner, messages):
    return await scanner(Transcript(transcript_id="t", messages=messages))


@pytest.mark.weights
def test_collapse_explanation_cites_the_episode_and_what_it_repeats(tmp_path: Path) -> None:
    texts = ["Shall we plan the trip?", "Yes, by train."] + ["Sounds good to me!"] * 6
    task = Task(
        dataset=[Sample(input="Go on.", id="a")], solver=talk(texts), scorer=collapse_rate()
    )
    [sample] = run(task, scripted(says("unused")), tmp_path).samples or []
    score = sample.scores["collapse_rate"]
    assert score.value == pytest.approx(chimeralab.detect(texts).collapse_rate)
    assert score.explanation == (
        "3 of 8 turns are collapsed: [M7] to [M9], where [M7] repeats [M6]."
    )
    cites = {each["cite"] for each in score.metadata["scanner_references"]}
    assert cites == {"[M6]", "[M7]", "[M9]"}


def talk(texts: list[str]):
    @solver
    def spoken():
        async def solve(state, generate):
            state.messages += [ChatMessageAssistant(content=text) for text in texts]
            return state

        return solve

    return spoken()


def test_too_short_conversation_is_not_scored(tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="Go on.", id="a")], solver=talk(["Hi."]), scorer=collapse_rate()
    )
    log = run(task, scripted(says("unused")), tmp_path)
    score = log.samples[0].scores["collapse_rate"]
    assert score.value != score.value  # NaN: kept, and in no mean
    assert "the rule needs 5" in score.explanation


def test_messages_without_ids_are_judged_but_not_linked() -> None:
    messages: list[ChatMessage] = [ChatMessageUser(content="Make the test pass.")]
    for n in range(5):
        call = ToolCall(id=f"c{n}", function="bash", arguments={"command": "pytest"})
        messages.append(ChatMessageAssistant(content="", tool_calls=[call]))
        messages.append(ChatMessageTool(content="1 failed", tool_call_id=f"c{n}"))
    for message in messages:
        message.id = None
    result = asyncio.run(_scanned(loops(), messages))
    assert result.value is True
    assert result.references == []
