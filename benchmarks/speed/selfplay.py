"""Bar 5: conversations side by side on the embedded model against one by one without a cache."""

import argparse
import asyncio
import itertools
import time
from typing import NamedTuple

from benchmarks.table import Result, keep
from chimeralab.models.embedded import EmbeddedModel, EmbeddedSettings
from chimeralab.models.seam import Message, Request, Sampling

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
BUCKET = 5


class Asked(NamedTuple):
    """One turn of self-play: what was asked, how long the reply was, how long it took."""

    request: Request
    tokens: int
    seconds: float


def main() -> None:
    options = _options()
    asked, seconds = asyncio.run(_side_by_side(options))
    again = asyncio.run(_one_by_one(_sample(asked, options.sample)))
    _print_by_turn(asked, again)
    beside = sum(turn.tokens for turn in asked) / seconds
    alone = sum(turn.tokens for turn in again) / sum(turn.seconds for turn in again)
    ratio = beside / alone
    note = (
        f"{len(PROMPTS)} conversations of {options.turns} turns of up to {options.tokens} tokens: "
        f"{beside:.0f} tokens/s, {alone:.1f} one by one without prefix cache (every "
        f"{options.sample}th turn asked again)"
    )
    keep(Result("self-play", f"{ratio:.1f} x", "5 x", ratio >= 5, COMMAND, note))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--sample", type=int, default=13, help="ask every nth turn again, alone")
    return parser.parse_known_args()[0]


async def _side_by_side(options: argparse.Namespace) -> tuple[list[Asked], float]:
    model = EmbeddedSettings().open()
    await _warm_up(model)
    started = time.perf_counter()
    talks = [_converse(model, prompt, seed, options) for seed, prompt in enumerate(PROMPTS)]
    asked = await asyncio.gather(*talks)
    seconds = time.perf_counter() - started
    await model.close()
    return list(itertools.chain(*asked)), seconds


async def _converse(
    model: EmbeddedModel, prompt: str, seed: int, options: argparse.Namespace
) -> list[Asked]:
    """Self-play: each side sees the history with the roles swapped."""
    said, asked = [prompt], []
    sampling = Sampling(max_tokens=options.tokens)
    for turn in range(1, options.turns + 1):
        # the newest line is the other side's
        roles = itertools.cycle(("user", "assistant"))
        messages = [Message(role, text) for role, text in zip(roles, reversed(said))][::-1]  # type: ignore[arg-type] # noqa: B905
        request = Request(tuple(messages), sampling, 1000 * seed + turn, str(seed), turn)
        started = time.perf_counter()
        reply = await model.reply(request)
        asked.append(Asked(request, reply.completion_tokens or 0, time.perf_counter() - started))
        said.append(reply.text)
    return asked


def _sample(asked: list[Asked], every: int) -> list[Request]:
    """Turns spread evenly over all conversations and lengths; asking all again takes an hour."""
    return [turn.request for turn in asked[every // 2 :: every]]


async def _one_by_one(requests: list[Request]) -> list[Asked]:
    model = EmbeddedSettings(deterministic=True).open()
    await _warm_up(model)
    asked = []
    for request in requests:
        started = time.perf_counter()
        reply = await model.reply(request)
        asked.append(Asked(request, reply.completion_tokens or 0, time.perf_counter() - started))
    await model.close()
    return asked


async def _warm_up(model: EmbeddedModel) -> None:
    await model.reply(Request((Message("user", "Hello."),), Sampling(max_tokens=4)))


def _print_by_turn(asked: list[Asked], again: list[Asked]) -> None:
    print("tokens/s by turn: side by side, one by one")
    turns = max(turn.request.turn for turn in asked)
    for first in range(1, turns + 1, BUCKET):
        beside = _rate(asked, first) * len(PROMPTS)
        print(f"  {first:>3}-{first + BUCKET - 1:<3} {beside:>6.0f} {_rate(again, first):>6.1f}")


def _rate(asked: list[Asked], first: int) -> float:
    bucket = [turn for turn in asked if first <= turn.request.turn < first + BUCKET]
    seconds = sum(turn.seconds for turn in bucket)
    return sum(turn.tokens for turn in bucket) / seconds if seconds else float("nan")


if __name__ == "__main__":
    main()
