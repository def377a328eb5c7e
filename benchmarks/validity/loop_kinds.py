"""Draw what each kind of loop looks like, with the places at which the detector notices it.

python -m benchmarks.validity.loop_kinds        writes docs/images/loop-kinds.svg
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.table import ROOT
from chimeralab import Call, Turn
from chimeralab.detection.loops import LoopStream

PICTURE = ROOT / "docs" / "images" / "loop-kinds.svg"
STEPS = 26
COLOURS = ("#2f6db3", "#d98a2b", "#5a9e6f", "#9a6fb0", "#b3504f", "#7f7f7f")
CELL, ROW, LEFT, TOP = 28, 40, 130, 46
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'

ITEMS = [
    *("art", "steam", "bells", "war", "sea", "glass", "salt", "toys", "maps", "wool", "rail"),
    *("iron", "clay", "silk", "wine", "clocks", "ships", "tea", "lace", "film"),
    *("bread", "coins", "masks", "roofs", "wells", "bees"),
]
FAREWELLS = (
    "Thank you so much!", "You're very welcome!", "Take care, my friend.", "Have a great day!",
    "You too, goodbye!", "Bye, see you soon!", "All the best!", "Thanks again, take care!",
)  # fmt: skip


class Step(NamedTuple):
    """A message of an example, and the letter or number that stands for what it says."""

    letter: str
    turn: Turn


def said(letter: str, text: str, speaker: int) -> Step:
    return Step(letter, Turn(text, f"model {speaker % 2}"))


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


EXAMPLES: dict[str, Callable[[int], Step]] = {
    "verbatim": in_turn("Let me check the harbour records once more."),
    "alternating": in_turn(
        "Shall we start the harbour survey now?", "Yes, tell me when you begin it."
    ),
    "cycle": in_turn(
        "Who has the survey maps of the harbour?",
        "Ask the clerk in the other building.",
        "The clerk says that you keep them yourself.",
    ),
    "template": lambda n: said(
        f"{n + 1}", f"Now I see the museum of {ITEMS[n]}, and then I go on.", n
    ),
    "farewell": lambda n: said("·", FAREWELLS[n % 8], n),
    "silence": lambda n: Step("–", Turn("", f"model {n % 2}")),
    "tool": lambda n: called("A", "ls", {"path": "."}, "a.txt"),
    "failure": lambda n: called(
        f"{n + 1}",
        "run",
        {"path": f"{ITEMS[n]}.py"},
        f"Error: {ITEMS[n]}.py line {n}: no settings found",
    ),
    "no-news": lambda n: called(
        f"{n + 1}", "search", {"query": f"about {ITEMS[n]}"}, "No results found."
    ),
    "test-fix": edit_or_test,
    "undo": back_and_forth,
    "reread": read_again,
    "handover": lambda n: called(
        "AB"[n % 2],
        f"transfer_to_{('billing', 'support')[n % 2]}",
        {"reason": f"about {ITEMS[n]}"},
        "ok",
    ),
    "waiting": lambda n: called("A", "get_job_status", {"id": 7}, "running"),
}


def rows() -> Iterator[tuple[str, list[str], dict[str, int]]]:
    """For each kind the letters of its example, and the steps of its notice and its verdict."""
    for kind, make in EXAMPLES.items():
        steps = [make(n) for n in range(STEPS)]
        stream, seen = LoopStream(), dict[str, int]()
        for number, step in enumerate(steps, start=1):
            stream.update(step.turn)
            for loop in stream.loops:
                if loop.kind == kind:
                    seen.setdefault(loop.level, number)
        yield kind, [step.letter for step in steps], seen


def draw() -> str:
    found = list(rows())
    width, height = LEFT + STEPS * CELL + 20, TOP + len(found) * ROW + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="An example of each kind of loop, and where it is noticed">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" {FONT}>messages or calls: equal letters say the same,'
        " numbers something else in the same frame</text>",
    ]
    for line, (kind, letters, seen) in enumerate(found):
        y = TOP + line * ROW
        parts.append(f'<text x="{LEFT - 12}" y="{y + 17}" text-anchor="end" {FONT}>{kind}</text>')
        groups = ["#" if letter.isdigit() else letter for letter in letters]
        known = list(dict.fromkeys(groups))
        for n, letter in enumerate(letters):
            x, colour = LEFT + n * CELL, COLOURS[known.index(groups[n]) % len(COLOURS)]
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 4}" height="26" rx="3" fill="{colour}"'
                f' fill-opacity="{0.4 if letter.isdigit() else 0.75}"/>'
                f'<text x="{x + CELL / 2 - 2}" y="{y + 17}" text-anchor="middle" {FONT}>'
                f"{letter}</text>"
            )
        for level, number in seen.items():
            x, fill = LEFT + (number - 1) * CELL, "#b3202a" if level == "verdict" else "none"
            parts.append(f'<path d="M{x + 9} {y - 8} h12 l-6 7 z" fill="{fill}" stroke="#b3202a"/>')
    y = TOP + len(found) * ROW + 14
    parts.append(
        f'<path d="M{LEFT} {y - 9} h12 l-6 7 z" fill="none" stroke="#b3202a"/>'
        f'<text x="{LEFT + 18}" y="{y}" {FONT}>notice</text>'
        f'<path d="M{LEFT + 90} {y - 9} h12 l-6 7 z" fill="#b3202a" stroke="#b3202a"/>'
        f'<text x="{LEFT + 108}" y="{y}" {FONT}>verdict</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    PICTURE.write_text(draw(), encoding="utf-8")
    for kind, letters, seen in rows():
        print(kind, " ".join(letters), seen)


if __name__ == "__main__":
    main()
