"""Bar 5: conversations side by side on the embedded model against one by one without a cache."""

import argparse
import asyncio
import itertools
import time
from typing import NamedTuple

from benchmarks.table import Result, keep
from chimeralab.models.catalogue import EmbeddedSettings
from chimeralab.models.embedded import EmbeddedModel
from chimeralab.models.seam import Message, Request, Role, Sampling

COMMAND = "python -m benchmarks.speed.selfplay"
PROMPTS = (
    "Should a small town build a tram or buy more buses?",
    "Write about a lighthouse that is switched on for the last time.",
    "Why do planes fly, and why do people doubt the usual answer?",
    "Plan a weekend in the mountains for two people who hate walking.",
    "Explain what a promise is to someone who has never made one.",
    "Rewrite the sentence: the cat sat on the mat and thought of fish.",
    "Is it ever right to lie to a friend?",
    "List the steps to repair a bicycle that has stood outside for years.",
)
STRETCH = 5  # turns; both ways take turns, so that what else the machine does burdens both


class Asked(NamedTuple):
    """One question of self-play, its reply, and how long that took."""

    request: Request
    text: str
    tokens: int
    seconds: float


class Stretch(NamedTuple):
    """A few turns of all conversations: tokens per second in both ways."""

    turns: str
    tokens: int
    seconds: float
    alone: list[Asked]

    def __str__(self) -> str:
        return f"{self.turns:>7} {self.tokens / self.seconds:>8.0f} {_rate(self.alone):>8.1f}"


def main() -> None:
    options = _options()
    stretches = asyncio.run(_measure(options))
    parallel = sum(s.tokens for s in stretches) / sum(s.seconds for s in stretches)
    # Every stretch has as many tokens to make, so each counts by the time that one token takes.
    alone = len(stretches) / sum(1 / _rate(s.alone) for s in stretches)
    ratio = parallel / alone
    note = (
        f"{len(PROMPTS)} conversations of {options.turns} turns of up to {options.tokens} tokens: "
        f"{parallel:.0f} tokens/s, {alone:.1f} one by one without prefix cache"
    )
    keep(Result("self-play", f"{ratio:.1f} x", "5 x", ratio >= 5, COMMAND, note))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--sample", type=int, default=3, help="questions per stretch asked alone")
    return parser.parse_known_args()[0]


async def _measure(options: argparse.Namespace) -> list[Stretch]:
    together, single = EmbeddedSettings().open(), EmbeddedSettings(deterministic=True).open()
    await asyncio.gather(_warm_up(together), _warm_up(single))
    said, stretches = [[prompt] for prompt in PROMPTS], []
    print("  turns  side by side  one by one   (tokens/s)")
    for first in range(1, options.turns + 1, STRETCH):
        started = time.perf_counter()
        talks = [_converse(together, lines, options.tokens) for lines in said]
        asked = list(itertools.chain(*await asyncio.gather(*talks)))
        seconds = time.perf_counter() - started
        alone = [await _ask(single, turn.request) for turn in _sample(asked, options.sample)]
        tokens = sum(turn.tokens for turn in asked)
        stretches.append(Stretch(f"{first}-{first + STRETCH - 1}", tokens, seconds, alone))
        print(stretches[-1], flush=True)
    await asyncio.gather(together.close(), single.close())
    return stretches


async def _converse(model: EmbeddedModel, said: list[str], tokens: int) -> list[Asked]:
    """Self-play: each side sees the history with the roles swapped, the newest line as user."""
    asked = []
    for _ in range(STRETCH):
        roles: list[Role] = ["user" if n % 2 else "assistant" for n in range(len(said), 0, -1)]
        messages = tuple(map(Message, roles, said))
        request = Request(messages, Sampling(max_tokens=tokens), seed=len(said))
        asked.append(await _ask(model, request))
        said.append(asked[-1].text)
    return asked


def _sample(asked: list[Asked], size: int) -> list[Asked]:
    """Questions from the middle of the stretch, of different conversations."""
    return asked[STRETCH // 2 :: STRETCH][:size]


async def _ask(model: EmbeddedModel, request: Request) -> Asked:
    started = time.perf_counter()
    reply = await model.reply(request)
    seconds = time.perf_counter() - started
    return Asked(request, reply.text, reply.completion_tokens or 0, seconds)


async def _warm_up(model: EmbeddedModel) -> None:
    await model.reply(Request((Message("user", "Hello."),), Sampling(max_tokens=4)))


def _rate(asked: list[Asked]) -> float:
    return sum(turn.tokens for turn in asked) / sum(turn.seconds for turn in asked)


if __name__ == "__main__":
    main()
