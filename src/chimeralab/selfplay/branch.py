"""Would a nudge have broken it? A study that goes on from a recorded loop in several ways."""

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.models.catalogue import MODELS
from chimeralab.runner.interventions import COUNTERMEASURES, Mark, Sham
from chimeralab.selfplay.plan import ROLES

TREATMENTS = (*COUNTERMEASURES, Sham.name, Mark.name)


class BranchOptions(NamedTuple):
    """How a recorded conversation is continued: by whom, how often, how long, and treated how.

    `after` counts the turns from the onset to the moment; up to there, turns are as recorded.
    """

    model: Mapping[str, Any]
    treatments: Sequence[str]
    n: int = 20
    after: int = 0
    turns: int = 24
    detector: str = "loops"
    temperature: float = 0.7
    max_tokens: int = 64
    seed: int = 1


def read_model(text: str) -> dict[str, Any]:
    """The table of a model on the command line: a built-in one, or NAME@URL of a server.

    >>> read_model("llama-3@http://localhost:8001/v1")["base_url"]
    'http://localhost:8001/v1'
    """
    name, at, url = text.partition("@")
    if at and name and url:
        return {"use": "openai", "model": name, "base_url": url}
    alone = ("embedded", "phantom")
    if text not in alone:
        raise InputError(
            f"--model {text!r} is not {', '.join(alone)}, or NAME@URL of a compatible server"
        )
    assert set(alone) <= set(MODELS)
    return {"use": text}


def split_talk(talk: Trajectory) -> tuple[str, list[str], list[Turn]]:
    """The prompt of a conversation, the names of those who speak in turn, and what they said.

    Without a recorded prompt, the first message takes its place.
    """
    turns = [turn for turn in talk.turns if turn.spoken and turn.text.strip()]
    if any(turn.calls for turn in talk.turns):
        raise InputError(
            f"conversation {talk.id!r} has tool calls, whose results can't be continued; only "
            "conversations of speakers in turn can be branched"
        )
    prompt = str(talk.metadata.get("prompt_text") or "")
    if not prompt and turns:
        prompt, turns = turns[0].text, turns[1:]
    order = list(dict.fromkeys(turn.speaker or "" for turn in turns))
    for number, (turn, name) in enumerate(zip(turns, cycle(order or [""]), strict=False), start=1):
        if (turn.speaker or "") != name:
            raise InputError(
                f"conversation {talk.id!r}: turn {number} is by {turn.speaker!r}, where it is the "
                f"turn of {name!r}; only conversations of speakers in turn can be branched"
            )
    if len(order) < 2:
        raise InputError(f"conversation {talk.id!r} has one speaker alone; nobody would answer")
    return prompt, order, turns


def find_onset(found: Detection) -> int:
    """The first collapsed turn."""
    if found.first_collapse_turn is None:
        why = found.reason or "no turn is marked"
        raise InputError(f"conversation {found.id!r} has no loop to branch from: {why}")
    return found.positions[found.first_collapse_turn - 1]


def write_plan(talk: Trajectory, onset: int, options: BranchOptions) -> str:
    """The plan of a study that continues a conversation `n` times under each treatment.

    Each continuation is a prompt of its own, so that it is a unit of the analysis.
    """
    prompt, order, turns = split_talk(talk)
    moment = onset + options.after
    if moment > len(turns):
        raise InputError(
            f"--after {options.after}: the loop is noticed at turn {onset}, and the conversation "
            f"has only {len(turns)} turns"
        )
    treatments = list(dict.fromkeys(options.treatments))
    acting = [name for name in treatments if name in COUNTERMEASURES]
    if not acting:
        raise InputError("--treatments needs one besides sham and none, such as nudge")
    prompts = [
        f"  {{ id = {_text(f'branch-{n:03}')}, text = {_text(prompt)} }},"
        for n in range(1, options.n + 1)
    ]
    rows = [
        *(
            "# Written by `chimera branch`: a recorded conversation goes on under each treatment.",
            "[study]",
            f"name = {_text(f'branches of {talk.id}')}",
            'question = "Would a treatment have ended this loop?"',
            "[models.continued]",
            'use = "recorded"',
            f"then = {_table(options.model)}",
            f"said = [{', '.join(_text(turn.text) for turn in turns[:moment])}]",
            "price = { input = 0.0, output = 0.0 }",
        ),
        *("[sampling]", f"temperature = {float(options.temperature)}"),
        f"max_tokens = {options.max_tokens}",
        *("[conditions.branch]", "speakers = [", *list_speakers(order), "]"),
        *list_treatments(treatments, acting[0], moment),
        *("[escape]", f"horizon = {max(3, options.turns // 2)}"),
        *("[outcomes]", "estimands = []"),
        *("[conversation]", f"turns = {moment + options.turns}", 'on_overflow = "trim 12"'),
        *("[detector]", f"use = {_text(options.detector)}"),
        *("[run]", f"seed = {options.seed}"),
        *("[prompts]", "items = [", *prompts, "]"),
    ]
    return "\n".join(rows) + "\n"


def list_speakers(order: Sequence[str]) -> list[str]:
    """The speakers of the plan, under their own names where a plan can have them."""
    names = [f"speaker-{n}" for n in range(1, len(order) + 1)]
    if not ROLES & set(order) and all(name.replace("-", "").isalnum() for name in order):
        names = list(order)
    return [f'  {{ model = "continued", name = {_text(name)} }},' for name in names]


def list_treatments(treatments: Sequence[str], first: str, moment: int) -> list[str]:
    """The perturbations of the plan; sham and mark belong to the first treatment."""
    rows: list[str] = []
    for name in treatments:
        compared = name in (Sham.name, Mark.name)
        when = f"of = {_text(first)}" if compared else f"at_turns = [{moment}]"
        rows += [f"[perturbations.{name}]", f"use = {_text(name)}", when]
    return rows


def _text(text: str) -> str:
    """A TOML string: as in JSON, which leaves one control character as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(values: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_text(value)}" for key, value in values.items()) + " }"
