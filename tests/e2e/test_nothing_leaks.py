"""Requests to a subject, under every stressor, contain no key, no arm and no revealing id."""

import json
import re
from typing import Any

import pytest

from chimeralab.study import Study
from tests.agents import Serving, reading, serving
from tests.plans import agent_trial, changed

DESIGN = """
factorial = ["amnesia", "infallibility", "conformity"]
countermeasures = ["ledger", "review", "commit"]
"""
# Words that scenarios and probes use literally do not leak anything.
OF_THE_LAB = """
    amnesia infallibility conformity sham control ledger commit factorial stressor countermeasure
    injection probe noticed truth lure key item needs solution signal arm scenario critical
    consensus taught held tested deprive phantom
""".split()
HEAD = re.compile(r"^(host|accept|accept-encoding|connection|user-agent|content-length"
                  r"|content-type|authorization|x-stainless-[a-z-]+|post .*)$")  # fmt: skip


def chat(asked: dict[str, Any]) -> tuple[int, Any]:
    """An OpenAI-compatible server with the careful reader behind it."""
    texts = [message["content"] for message in asked["messages"]]
    said = {"role": "assistant", "content": reading(texts[-1], texts)}
    choice = {"index": 0, "finish_reason": "stop", "message": said}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    about = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return 200, {**about, "choices": [choice], "usage": usage}


def telling(study: Study) -> list[str]:
    """Every name and id of the plan that would reveal the trial to a subject."""
    trial = study.plan.own
    assert trial is not None
    ids = [question.question.id for course in trial.courses for question in course.steps]
    long_ones = [name for name in ids if len(name) > 3]
    talks = [part for talk in study.talks for part in (talk.id, talk.prompt.id)]
    return [*trial.arms, *long_ones, *talks, *trial.probes, study.plan.study.name]


@pytest.mark.parametrize("wire", ["http", "openai"])
def test_requests_of_a_full_trial_do_not_reveal_its_purpose(make_study, chimera, wire):
    received: list[str] = []
    with serving(Serving().answer if wire == "http" else chat, received) as url:
        agent = f'use = "http"\nurl = "{url}"\ncan = ["fork", "forget"]'
        files = agent_trial(agent, DESIGN, number=1)
        if wire == "openai":
            model = f'[agents.a]\n[models.a]\nuse = "openai"\nmodel = "m"\nbase_url = "{url}"\n'
            files = changed(files, model)
        study = make_study(files)
        assert chimera("run", study.path).code == 0
    assert len(study.plan.own.arms) == 15
    assert len(received) > 400
    names = {*OF_THE_LAB, *telling(study)} - {"recall", "alone", "confidence", "belief"}
    forbidden = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names), re.IGNORECASE)
    for request in received:
        head, _, body = request.partition("\n\n")
        asked = json.loads(body)
        assert not forbidden.search(without_scripted_words(asked)), request
        assert not forbidden.search(head), head
        for line in head.lower().splitlines():
            assert HEAD.match(line.split(":")[0].strip()), line
        if wire == "http":
            allowed = {"session", "do", "episode", "message", "into", "episodes"}
            assert re.fullmatch("[0-9a-f]{32}", asked["session"])
        else:
            allowed = {"messages", "model", "max_tokens", "seed", "temperature", "top_p"}
            # The form of an answer names the options of its question, or the numbers of a scale.
            form = json.dumps(asked.pop("response_format", {}), ensure_ascii=False)
            said = asked["messages"][-1]["content"]
            for option in re.findall(r'"([^"]+)"', "".join(re.findall(r'"enum": (.*?)\]', form))):
                assert option in said or re.fullmatch(r"[01](\.\d+)?", option), (option, said)
        assert asked.keys() <= allowed


def without_scripted_words(asked: dict[str, Any]) -> str:
    """A request without the words that are meant to be read there."""
    text = json.dumps(asked, ensure_ascii=False)
    for said in ("you committed to this answer", "tested", "Review the evidence"):
        text = text.replace(said, "")
    return text
