"""The loops: each maker gives a stretch that a reader calls stuck."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.validity.loop_zoo.hosts import Call, Turn
from benchmarks.validity.loop_zoo.scene import (
    SENTENCE_END,
    TEXTS,
    Scene,
    blur,
    entries,
    source_text,
)


class Loop(NamedTuple):
    """A stretch that goes round: its turns, its period, and how many turns of it are stuck."""

    turns: list[Turn]
    period: int
    stuck: int


def cycle_of(scene: Scene, texts: Sequence[str], length: int, noise: int) -> Loop:
    """The texts over and over, at least three times each."""
    period = len(texts)
    length = max(length, 3 * period + scene.rng.randint(0, 3))
    said = [blur(scene, texts[i % period], noise) for i in range(length)]
    return Loop(scene.said(said), period, length)


def verbatim(scene: Scene, length: int, noise: int) -> Loop:
    return cycle_of(scene, [source_text(scene, 3 if noise == 3 else 1)], length, noise)


def cycle(scene: Scene, length: int, noise: int) -> Loop:
    period = scene.rng.randint(2, 6)
    texts: list[str] = []
    while len(texts) < period:
        text = source_text(scene, 3 if noise == 3 else 1)
        texts += [text] if text not in texts else []
    return cycle_of(scene, texts, length, noise)


def interrupted(scene: Scene, length: int, noise: int) -> Loop:
    """One text over and over, with something new after every third time."""
    loop = verbatim(scene, max(length, 9), noise)
    turns = [
        turn._replace(text=scene.fact()) if i % 4 == 3 else turn
        for i, turn in enumerate(loop.turns)
    ]
    return Loop(turns, 1, len(turns))


def one_sided(scene: Scene, length: int, noise: int) -> Loop:
    """One speaker repeats, the other always says something new."""
    text, length = source_text(scene), max(length, 10)
    said = [scene.facts() if i % 2 else blur(scene, text, noise) for i in range(length)]
    return Loop(scene.said(said), 2, length)


def template(scene: Scene, length: int, noise: int) -> Loop:
    """1: short slots; 2: slots that carry most of the words."""
    frame = scene.draw("template.short" if noise == 1 else "template.long", halved=True)
    return Loop(scene.said([scene.fill(frame) for _ in range(length)]), 1, length)


def paraphrase(scene: Scene, length: int, noise: int) -> Loop:
    """1: the same statements in new words; 2: in another order too, one left out now and then."""
    return _reworded(scene, "paraphrase", max(length, 8), shuffle=noise == 2)


def replan(scene: Scene, length: int, noise: int) -> Loop:
    """Thinking of one agent that states the task over and over."""
    loop = _reworded(scene, "replan", max(length, 8), shuffle=False)
    tag = scene.rng.choice(("", "<think>\n"))
    turns = [Turn(scene.agent, tag + turn.text) for turn in loop.turns]
    return loop._replace(turns=turns)


def _reworded(scene: Scene, table: str, length: int, shuffle: bool) -> Loop:
    rng, topics = scene.rng, scene.half_of(sorted(TEXTS[table]))
    statements = [bank.strip().splitlines() for bank in TEXTS[table][rng.choice(topics)]]
    decks: list[list[str]] = [[] for _ in statements]
    said = []
    for _ in range(length):
        for deck, wordings in zip(decks, statements, strict=True):
            if not deck:
                deck.extend(rng.sample(wordings, len(wordings)))
        message = [deck.pop() for deck in decks]
        if shuffle:
            rng.shuffle(message)
            message = message[: len(message) - rng.randint(0, 1)]
        said.append(" ".join(message))
    return Loop(scene.said(said), 1, length)


def courtesy(*banks: str) -> Callable[[Scene, int, int], Loop]:
    """Courtesy in ever new words; level 1 in plain ones, level 2 in idioms and images."""

    def maker(scene: Scene, length: int, noise: int) -> Loop:
        length = max(length, 7)
        return Loop(scene.said([_courteous(scene, banks) for _ in range(length)]), 1, length)

    return maker


def _courteous(scene: Scene, banks: Sequence[str]) -> str:
    rng = scene.rng
    lines = [scene.draw(f"courtesy.{bank}", halved=True) for bank in banks]
    rng.shuffle(lines)
    text = " ".join(lines[: rng.randint(1, len(lines))])
    return text + (f" {scene.draw('courtesy.emoji')}" if rng.random() < 0.2 else "")


def emoji(scene: Scene, length: int, noise: int) -> Loop:
    rng, signs, length = scene.rng, entries("courtesy", "emoji"), max(length, 7)
    said = ["".join(rng.choices(signs, k=rng.randint(1, 4))) for _ in range(length)]
    return Loop(scene.said(said), 1, length)


def foreign_courtesy(scene: Scene, length: int, noise: int) -> Loop:
    bank, length = f"foreign_courtesy.{language_of(scene)}", max(length, 7)
    return Loop(scene.said([scene.draw(bank) for _ in range(length)]), 1, length)


def foreign(scene: Scene, length: int, noise: int) -> Loop:
    lines = scene.half_of(TEXTS["foreign"][language_of(scene)])[0].strip().splitlines()
    return cycle_of(scene, scene.rng.sample(lines, scene.rng.randint(1, 3)), length, noise)


def language_of(scene: Scene) -> str:
    language: str = scene.rng.choice(sorted(TEXTS["foreign"]))
    return language


def apology(scene: Scene, length: int, noise: int) -> Loop:
    """An apology that grows around the same answer."""
    opener, text = scene.draw("apology.openers", halved=True), source_text(scene)
    regrets = [scene.draw("apology.growth") for _ in range(min(length, 7))]
    said = [" ".join((opener, *regrets[:i], blur(scene, text, noise))) for i in range(length)]
    return Loop(scene.said(said), 1, length)


def within(scene: Scene, length: int, noise: int) -> Loop:
    """One message that repeats a sentence; nothing after it does."""
    sentence = max(SENTENCE_END.split(source_text(scene)), key=len).rstrip(".!? ") + "."
    times = scene.rng.randint(8, 16)
    message = " ".join(blur(scene, sentence, noise) for _ in range(times))
    return Loop(scene.said([message, *(scene.fact() for _ in range(length - 1))]), 1, 1)


# Loops of calls


def tool_of(scene: Scene) -> dict[str, Any]:
    tool: dict[str, Any] = scene.rng.choice(scene.half_of(TEXTS["tools"]))
    return tool


def call_of(scene: Scene, tool: dict[str, Any], failed: bool) -> Call:
    """A call of the tool with new arguments."""
    arguments = {
        key: scene.fill(value) if isinstance(value, str) else value
        for key, value in tool["arguments"].items()
    }
    error = failed if scene.tells_errors else None
    return Call(tool["name"], json.dumps(arguments), tool["failed" if failed else "done"], error)


def tool_result(scene: Scene, length: int, noise: int) -> Loop:
    """1: the arguments reordered and reformatted; 2: the result with another duration too."""
    call, calls = call_of(scene, tool_of(scene), failed=False), []
    for _ in range(length):
        arguments = list(json.loads(call.arguments).items())
        scene.rng.shuffle(arguments)
        spaced = json.dumps(dict(arguments), indent=scene.rng.choice((None, 1)))
        stamp = f" (took {scene.rng.uniform(0.2, 4):.2f}s, request {scene.fill('{code}')})"
        same = call._replace(arguments=spaced) if noise else call
        calls.append(same._replace(result=call.result + stamp) if noise == 2 else same)
    return _called(scene, [[call] for call in calls], 1)


def tool_error(scene: Scene, length: int, noise: int) -> Loop:
    return _called(scene, [[call_of(scene, tool_of(scene), failed=True)]] * length, 1)


def tool_varied(scene: Scene, length: int, noise: int) -> Loop:
    """Ever new arguments, the same error."""
    tool = tool_of(scene)
    return _called(scene, [[call_of(scene, tool, failed=True)] for _ in range(length)], 1)


def tool_cycle(scene: Scene, length: int, noise: int) -> Loop:
    """Two or three calls in turn."""
    period = scene.rng.choice((2, 3))
    tools = scene.rng.sample(scene.half_of(TEXTS["tools"]), period)
    calls = [[call_of(scene, tool, failed=scene.rng.random() < 0.4)] for tool in tools]
    length = max(length, 3 * period + 1)
    return _called(scene, [calls[i % period] for i in range(length)], period)


def tool_think(scene: Scene, length: int, noise: int) -> Loop:
    """The same call, each time with a thought that decides to make it: before it or as a call."""
    call = call_of(scene, tool_of(scene), failed=scene.rng.random() < 0.5)
    as_call, turns = scene.rng.random() < 0.5, list[Turn]()
    while len(turns) < max(length, 8):
        thought = scene.draw("frames.thoughts")
        think = Call("think", json.dumps({"thought": thought}), "")
        turns += [Turn(scene.agent, "", (think,))] if as_call else [Turn(scene.agent, thought)]
        turns.append(Turn(scene.agent, "", (call,)))
    return Loop(turns, 2, len(turns))


def _called(scene: Scene, calls: Sequence[Sequence[Call]], period: int) -> Loop:
    chatty = scene.rng.random() < 0.3
    turns = [
        Turn(scene.agent, scene.draw("frames.thoughts") if chatty else "", tuple(each))
        for each in calls
    ]
    return Loop(turns, period, len(turns))


# Kind, noise level, maker. Noise is the maker's own scale.
LOOPS: tuple[tuple[str, int, Callable[[Scene, int, int], Loop]], ...] = (
    ("verbatim", 0, verbatim),
    ("noisy", 1, verbatim),
    ("noisy", 2, verbatim),
    ("noisy", 3, verbatim),
    ("cycle", 0, cycle),
    ("noisy-cycle", 1, cycle),
    ("noisy-cycle", 2, cycle),
    ("noisy-cycle", 3, cycle),
    ("interrupted", 0, interrupted),
    ("one-sided", 0, one_sided),
    ("one-sided", 1, one_sided),
    ("one-sided", 2, one_sided),
    ("template", 1, template),
    ("template", 2, template),
    ("paraphrase", 1, paraphrase),
    ("paraphrase", 2, paraphrase),
    ("replan", 1, replan),
    ("farewell", 1, courtesy("parting", "parting")),
    ("farewell", 2, courtesy("flowery", "farewell")),
    ("praise", 1, courtesy("praising", "praising")),
    ("praise", 2, courtesy("praise", "thanks")),
    ("emoji", 0, emoji),
    ("apology", 1, apology),
    ("within", 0, within),
    ("within", 1, within),
    ("foreign", 0, foreign),
    ("foreign", 1, foreign),
    ("foreign-courtesy", 1, foreign_courtesy),
    ("tool-result", 0, tool_result),
    ("tool-result", 1, tool_result),
    ("tool-result", 2, tool_result),
    ("tool-error", 0, tool_error),
    ("tool-varied", 1, tool_varied),
    ("tool-cycle", 0, tool_cycle),
    ("tool-think", 1, tool_think),
)
