"""Draw what each kind of loop looks like, with the places at which the detector notices it.

python -m benchmarks.validity.loop_kinds        writes docs/images/loop-kinds.svg
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from benchmarks.table import ROOT
from chimeralab import Call, Turn
from chimeralab.detection.loops import LoopStream
from chimeralab.embedding.encoder import default_encoder

PICTURE = ROOT / "docs" / "images" / "loop-kinds.svg"
STEPS = 24
COLOURS = (
    *("#2f6db3", "#d98a2b", "#5a9e6f", "#9a6fb0", "#b3504f", "#7f7f7f"),
    *("#3aa5a5", "#c77fa6", "#8a7a3d"),
)
CELL, ROW, LEFT, TOP = 25, 44, 330, 44
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
SMALL = 'font-family="sans-serif" font-size="10.5" fill="#666"'
RED = 'fill="none" stroke="#b3202a" stroke-width="2.5"'
RINGS = {"notice": f'{RED} stroke-dasharray="4 2.5"', "verdict": RED}

ITEMS = [
    *("art", "steam", "bells", "war", "sea", "glass", "salt", "toys", "maps", "wool", "rail"),
    *("iron", "clay", "silk", "wine", "clocks", "ships", "tea", "lace", "film"),
    *("bread", "coins", "masks", "roofs", "wells", "bees"),
]
FAREWELLS = (
    "Thank you so much!", "You're very welcome!", "Take care, my friend.", "Have a great day!",
    "You too, goodbye!", "Bye, see you soon!", "All the best!", "Thanks again, take care!",
)  # fmt: skip
REWORDINGS = (
    "The survey of the harbour should begin on Monday with two boats.",
    "On Monday two boats should begin surveying the harbour.",
    "Two boats ought to begin the harbour survey on Monday.",
    "We should begin our survey of the harbour with two boats, Monday.",
    "Monday is when the harbour survey by two boats should begin.",
    "With two boats the surveying of the harbour begins Monday, it should.",
    "The two boats should on Monday begin a harbour survey.",
    "Begin the harbour survey with the two boats on Monday, you should.",
)
SPEECHES = (
    "Cities should charge drivers who enter the centre. London did, and traffic fell by a third"
    " within two years, while buses went faster and the air near schools became cleaner.",
    "London also shows the limits: delivery vans came back, minicabs were exempt at first, and"
    " congestion returned by the end of the decade, because roads had been narrowed meanwhile.",
    "Then spend the income on buses for the suburbs, as Oslo does: every krone of its toll goes"
    " into a package of works which parliament has to approve line by line each spring.",
    "A toll by the hour needs a record of every car, and insurers would love to buy those. Fuel"
    " duty collects the same without names, and it costs next to nothing to administer.",
)
CLOSINGS = (
    "I couldn't have hoped for a better sparring partner. Truly, bravo.",
    "The honour is mine. I'll remember this with a grin for years.",
    "So will I. Onwards, then, each to our own mornings.",
    "Each to our own mornings, and may they be generous.",
    "Generous and slow, with birdsong.", "Birdsong it is. Lovely.", "Lovely indeed.",
    "Ever so glad.", "Glad beyond words.", "Beyond words, yes.", "And so we rest.", "Softly.",
)  # fmt: skip


class Step(NamedTuple):
    """A message of an example, and the letter or number that stands for what it says."""

    letter: str
    turn: Turn


def said(letter: str, text: str, speaker: int) -> Step:
    return Step(letter, Turn(text, f"model {speaker % 2}"))


def one_by_one(letters: str, *texts: str) -> Callable[[int], Step | None]:
    """Each text once, with a letter or, where that is a digit, its number."""

    def step(n: int) -> Step | None:
        if n >= len(texts):
            return None
        letter = letters[min(n, len(letters) - 1)]
        return said(str(n + 1) if letter.isdigit() else letter, texts[n], n)

    return step


def called(letter: str, name: str, arguments: object, result: str) -> Step:
    return Step(letter, Turn("", "agent", "assistant", calls=(Call(name, arguments, result),)))


def in_turn(*texts: str) -> Callable[[int], Step]:
    return lambda n: said("ABCDEF"[n % len(texts)], texts[n % len(texts)], n)


def edit_or_test(n: int) -> Step:
    if n % 2:
        return called("T", "bash", {"command": "pytest -q"}, "FAILED test_a: 1 == 2\n1 failed")
    change = {"path": "a.py", "old_string": f"x{n}", "new_string": f"y{n}"}
    return called(f"{n // 2 + 1}", "edit", change, f"ok {n}")


def back_and_forth(n: int) -> Step:
    old, new = ("5", "30")[:: 1 - 2 * (n % 2)]
    change = {"path": "a.toml", "old_string": f"wait = {old}", "new_string": f"wait = {new}"}
    return called("AB"[n % 2], "edit", change, f"Revision {n}.")


def read_again(n: int) -> Step:
    name = f"part_{n % 9}.py"
    return called(
        "ABCDEFGHI"[n % 9], "read_file", {"path": name}, f"The contents of {name}: {ITEMS[n % 9]}"
    )


class Example(NamedTuple):
    """The steps of a kind in words, and the step at each place; None after the last."""

    words: str
    step: Callable[[int], Step | None]


EXAMPLES: dict[str, Example] = {
    "verbatim": Example(
        "“Let me check the harbour records once more.”",
        in_turn("Let me check the harbour records once more."),
    ),
    "alternating": Example(
        "“Shall we start?” “Yes, tell me when you begin.”",
        in_turn("Shall we start the harbour survey now?", "Yes, tell me when you begin it."),
    ),
    "cycle": Example(
        "“Who has the maps?” “Ask the clerk.” “You have.”",
        in_turn(
            "Who has the survey maps of the harbour?",
            "Ask the clerk in the other building.",
            "The clerk says that you keep them yourself.",
        ),
    ),
    "template": Example(
        "“Now I see the museum of art, and then I go on.”",
        lambda n: said(f"{n + 1}", f"Now I see the museum of {ITEMS[n]}, and then I go on.", n),
    ),
    "within-turn": Example(
        "one message of one sentence, nine times",
        one_by_one("000A", *SPEECHES[:3], "The boat is late again today. " * 9),
    ),
    "farewell": Example(
        "“Take care, my friend.” “Have a great day!”",
        lambda n: said("…", FAREWELLS[n % 8], n),
    ),
    "ending": Example(
        "arguments, then “Lovely indeed.” “Glad beyond words.”",
        one_by_one("000…", *map(" ".join, pairwise(SPEECHES)), *CLOSINGS),
    ),
    "silence": Example("messages without a word", lambda n: Step("–", Turn("", f"model {n % 2}"))),
    "paraphrase": Example("one proposal in ever other words", one_by_one("≈", *REWORDINGS)),
    "tool": Example("ls .  →  a.txt", lambda n: called("A", "ls", {"path": "."}, "a.txt")),
    "failure": Example(
        "run art.py  →  Error: no settings found",
        lambda n: called(
            f"{n + 1}",
            "run",
            {"path": f"{ITEMS[n]}.py"},
            f"Error: {ITEMS[n]}.py line {n}: no settings found",
        ),
    ),
    "no-news": Example(
        "search “about art”  →  No results found.",
        lambda n: called(f"{n + 1}", "search", {"query": f"about {ITEMS[n]}"}, "No results found."),
    ),
    "test-fix": Example("edit a.py, pytest (T)  →  1 failed", edit_or_test),
    "undo": Example("wait = 5 to 30, and back to 5", back_and_forth),
    "reread": Example("nine files, again and again", read_again),
    "handover": Example(
        "transfer to billing, transfer to support",
        lambda n: called(
            "AB"[n % 2],
            f"transfer_to_{('billing', 'support')[n % 2]}",
            {"reason": f"about {ITEMS[n]}"},
            "ok",
        ),
    ),
    "waiting": Example(
        "get_job_status  →  running",
        lambda n: called("A", "get_job_status", {"id": 7}, "running"),
    ),
}


class Row(NamedTuple):
    """A kind with its example in words, its letters, and the step at which each level begins."""

    kind: str
    words: str
    letters: tuple[str, ...]
    seen: dict[str, int]


@cache
def rows() -> tuple[Row, ...]:
    """What the detector says of each example."""
    return tuple(_judge(kind, *example) for kind, example in EXAMPLES.items())


def _judge(kind: str, words: str, make: Callable[[int], Step | None]) -> Row:
    steps = [step for step in map(make, range(STEPS)) if step is not None]
    texts = [step.turn.text for step in steps]
    vectors = default_encoder().encode(texts).vectors if kind == "ending" else [None] * len(steps)
    stream, seen = LoopStream(), dict[str, int]()
    for number, (step, vector) in enumerate(zip(steps, vectors, strict=True), start=1):
        stream.update(step.turn, vector=vector)
        for loop in stream.loops:
            if loop.kind == kind:
                seen.setdefault(loop.level, number)
    return Row(kind, words, tuple(step.letter for step in steps), seen)


def draw() -> str:
    found = rows()
    width, height = LEFT + STEPS * CELL + 20, TOP + len(found) * ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="An example of each kind of loop, and where it is noticed">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" {FONT}>one square per message or call: equal letters say the'
        " same, numbers are different,</text>",
        f'<text x="{LEFT}" y="35" {FONT}>≈ the same in other words, … nothing new,'
        " – no words</text>",
    ]
    for line, row in enumerate(found):
        parts += _draw_row(row, TOP + line * ROW + 6)
    y = TOP + len(found) * ROW + 18
    for x, level in ((LEFT, "notice"), (LEFT + 100, "verdict")):
        parts += [
            f'<rect x="{x}" y="{y - 12}" width="16" height="16" rx="3" {RINGS[level]}/>',
            f'<text x="{x + 24}" y="{y + 1}" {FONT}>{level}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_row(row: Row, y: int) -> Iterator[str]:
    yield f'<text x="12" y="{y + 11}" font-weight="bold" {FONT}>{row.kind}</text>'
    yield f'<text x="12" y="{y + 26}" {SMALL}>{escape(row.words)}</text>'
    groups = ["#" if letter.isdigit() else letter for letter in row.letters]
    known = list(dict.fromkeys(groups))
    levels = {number: level for level, number in row.seen.items()}
    for n, letter in enumerate(row.letters):
        x, colour = LEFT + n * CELL, COLOURS[known.index(groups[n]) % len(COLOURS)]
        ring = RINGS.get(levels.get(n + 1, ""), 'stroke="none"').replace('fill="none" ', "")
        yield (
            f'<rect x="{x}" y="{y}" width="{CELL - 5}" height="26" rx="3" fill="{colour}"'
            f' fill-opacity="{0.3 if letter.isdigit() else 0.65}" {ring}/>'
            f'<text x="{x + (CELL - 5) / 2:g}" y="{y + 17}" text-anchor="middle" {FONT}>'
            f"{letter}</text>"
        )


def main() -> None:
    PICTURE.write_text(draw(), encoding="utf-8")
    for row in rows():
        print(row.kind, " ".join(row.letters), row.seen)


if __name__ == "__main__":
    main()
