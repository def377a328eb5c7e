"""Healthy stretches that look like loops: each maker gives what a reader calls progress.

A maker may give fewer turns than asked for, where its text ends; the host then goes on.
"""

import json
from collections.abc import Callable
from itertools import pairwise

from benchmarks.validity.loop_zoo.hosts import Call, Turn, hosts
from benchmarks.validity.loop_zoo.loops import call_of, language_of, tool_of
from benchmarks.validity.loop_zoo.scene import TEXTS, Scene, entries

Maker = Callable[[Scene, int], list[Turn]]
# Morphy's opera game, Paris 1858.
OPERA_GAME = (
    "e4 e5 Nf3 d6 d4 Bg4 dxe5 Bxf3 Qxf3 dxe5 Bc4 Nf6 Qb3 Qe7 Nc3 c6 Bg5 b5 Nxb5 cxb5 "
    "Bxb5+ Nbd7 O-O-O Rd8 Rxd7 Rxd7 Rd1 Qe6 Bxd7+ Nxd7 Qb8+ Nxb8 Rd8#"
)


def plain(scene: Scene, length: int) -> list[Turn]:
    return scene.said(scene.facts() for _ in range(length))


def with_short(bank: str) -> Maker:
    """One speaker tells, the other only says a word or two."""

    def maker(scene: Scene, length: int) -> list[Turn]:
        said = (scene.draw(bank) if i % 2 else scene.facts() for i in range(length))
        return scene.said(said)

    return maker


def warm(scene: Scene, length: int) -> list[Turn]:
    """Every turn opens with a courtesy and goes on with something new."""
    return scene.said(f"{scene.draw('frames.warm')} {scene.facts()}" for _ in range(length))


def framed(bank: str) -> Maker:
    """One frame throughout, with a new content in each turn."""

    def maker(scene: Scene, length: int) -> list[Turn]:
        frame = scene.draw(bank)
        places = ({"i": i + 1, "n": length, "percent": 100 * i // length} for i in range(length))
        return scene.said(scene.fill(frame, **place) for place in places)

    return maker


def form(scene: Scene, length: int) -> list[Turn]:
    frame = scene.draw("frames.forms")
    filled = (scene.fill(frame, i=i // 2 + 1) for i in range(length))
    return scene.said(text if i % 2 == 0 else scene.fact() for i, text in enumerate(filled))


def setup(scene: Scene, length: int) -> list[Turn]:
    """The same lines before whatever one or both of the speakers say."""
    head, both = scene.fill(scene.draw("frames.setup")), scene.rng.random() < 0.5
    told = (scene.facts() for _ in range(length))
    return scene.said(
        f"{head}\n{text}" if both or i % 2 == 0 else text for i, text in enumerate(told)
    )


def closing(scene: Scene, length: int) -> list[Turn]:
    """The same line after whatever one speaker says."""
    tail = scene.draw("frames.closing")
    told = (scene.facts(3) for _ in range(length))
    return scene.said(f"{text}\n\n{tail}" if i % 2 else text for i, text in enumerate(told))


def relay(scene: Scene, length: int) -> list[Turn]:
    """An orchestrator hands on what its workers report."""
    turns: list[Turn] = []
    while len(turns) < length:
        report = f"{scene.fact()} {scene.fact()}"
        order = scene.rng.choice((f" {scene.fact()}", ""))
        turns.append(Turn(scene.rng.choice(("worker_1", "worker_2")), report))
        turns.append(Turn("orchestrator", f"{scene.rng.choice(('', 'FYI: '))}{report}{order}"))
    return turns


def requote(scene: Scene, length: int) -> list[Turn]:
    """Mail style: each answer quotes the one before, or the whole thread."""
    whole, quoted, said = scene.rng.random() < 0.5, "", []
    for _ in range(length):
        text = scene.facts()
        said.append(f"{text}\n\n{quoted}".strip())
        source = said[-1] if whole else text
        quoted = "\n".join(f"> {line}" for line in source.splitlines())
    return scene.said(said)


def code_edit(scene: Scene, length: int) -> list[Turn]:
    """The same block of code again, changed in one line each time."""
    lines = [f"{thing} = load({thing!r}, {i})" for i, thing in enumerate(_things(scene, 10))]
    said = []
    for _ in range(length):
        thing = _things(scene, 1)[0]
        lines[scene.rng.randrange(10)] = f"{thing} = {thing}_of(rows, {scene.rng.randint(2, 99)})"
        said.append(f"{scene.draw('frames.intros')}\n```python\n" + "\n".join(lines) + "\n```")
    return scene.said(said)


def _things(scene: Scene, count: int) -> list[str]:
    return [scene.draw("facts.objects").replace("-", "_") for _ in range(count)]


def requests(scene: Scene, length: int) -> list[Turn]:
    """The same kind of request for one thing after another, each of them done."""
    steps, said = scene.draw("frames.requests").split("|"), list[str]()
    while len(said) < length:
        frames = [scene.rng.choice(step.split("~")) for step in steps]
        said += scene.fill("|".join(frames)).split("|")
    return scene.said(said)


def ask_again(scene: Scene, length: int) -> list[Turn]:
    """A question asked twice or three times until the answer fits, then the next one."""
    said = list[str]()
    questions = (
        "where {name} bought the {thing}",
        "who sold {name} that {thing}",
        "what the {thing} cost",
    )
    while len(said) < length:
        question = scene.fill(scene.rng.choice(questions))
        said += [f"Do you remember {question}?", scene.fact()]
        if scene.rng.random() < 0.5:
            said += [f"No, I mean {question}.", scene.fact()]
        said += [
            f"That's not it. I asked {question}.",
            scene.fill("{name} did, in {town}, for {k2} euros."),
        ]
    return scene.said(said)


def polite_end(scene: Scene, length: int) -> list[Turn]:
    """News, and three or four courteous turns at the end."""
    ends = scene.rng.randint(3, 4)
    lines = [scene.draw("courtesy.farewell", halved=True) for _ in range(ends)]
    return scene.said([scene.facts() for _ in range(length - ends)] + lines)


def game(scene: Scene, length: int) -> list[Turn]:
    """Moves in a fixed format, most of them with a remark."""
    moves = scene.rng.choice((_chess, _battleship, _hangman))(scene, length)
    remarked = scene.rng.uniform(0.6, 1)
    return scene.said(
        f"{move} {scene.draw('frames.remarks')}" if scene.rng.random() < remarked else move
        for move in moves
    )


def _chess(scene: Scene, length: int) -> list[str]:
    start = scene.rng.randrange(0, 12, 2)
    return [
        f"Move {i // 2 + 1}, {('White', 'Black')[i % 2]} plays {move}."
        for i, move in enumerate(OPERA_GAME.split()[start : start + length], start)
    ]


def _battleship(scene: Scene, length: int) -> list[str]:
    fields = [f"{row}{column}" for row in "ABCDEFGHIJ" for column in range(1, 11)]
    answers = ("Miss.", "Water.", "Hit!", "Hit and sunk!")
    shots = scene.rng.sample(fields, length)
    return [f"{scene.rng.choice(answers)} I fire at {field}." for field in shots]


def _hangman(scene: Scene, length: int) -> list[str]:
    word, tried, said = _things(scene, 1)[0], "", []
    for letter in scene.rng.sample("etaoinsrhldcumpg", length // 2 + 1):
        tried += letter
        shown = " ".join(each if each in tried else "_" for each in word)
        said += [f"I guess the letter {letter}.", f"The word is now {shown}, tried: {tried}."]
    return said[:length]


def drill(scene: Scene, length: int) -> list[Turn]:
    """A quiz with a few fixed frames and a new question each time."""
    bank = scene.rng.choice(("capitals", "spanish"))
    pairs = scene.rng.sample([pair.split(":") for pair in entries("frames", bank)], length // 2 + 1)
    said: list[str] = []
    for question, answer in pairs:
        asked = scene.draw(f"frames.ask_{bank}").format(question)
        said += [asked, scene.draw("frames.answers").format(answer)]
    return scene.said(said[:length])


def script(kind: str) -> Maker:
    """Talk on one topic in its own words, written for the zoo."""

    def maker(scene: Scene, length: int) -> list[Turn]:
        lines = scene.rng.choice(scene.half_of(TEXTS["scripts"][kind])).strip().splitlines()
        start = scene.rng.randint(0, max(0, len(lines) - length))
        return scene.said(lines[start : start + length])

    return maker


def restated(scene: Scene, length: int) -> list[Turn]:
    """The same kind of talk, each turn opening with the words of the one before."""
    kinds = ("role_play", "imagery", "tutoring", "negotiation", "module", "essay")
    told = script(scene.rng.choice(kinds))(scene, length)
    answers = pairwise(told)
    return told[:1] + [turn._replace(text=f'"{last.text}" {turn.text}') for last, turn in answers]


def mannered(scene: Scene, length: int) -> list[Turn]:
    """A story or an image that moves on, in a style that does not."""
    told = script(scene.rng.choice(("role_play", "imagery")))(scene, length)
    turns = []
    for turn in told:
        opening = scene.draw("frames.gestures", halved=True) if scene.rng.random() < 0.7 else ""
        end = scene.draw("frames.invitations", halved=True) if scene.rng.random() < 0.4 else ""
        turns.append(turn._replace(text=f"{opening} {turn.text} {end}".strip()))
    return turns


def foreign(scene: Scene, length: int) -> list[Turn]:
    talk = scene.half_of(TEXTS["foreign"][language_of(scene)])[0]
    return scene.said(talk.strip().splitlines())


def real(source: str) -> Maker:
    """A stretch of another host."""

    def maker(scene: Scene, length: int) -> list[Turn]:
        others = [host for host in hosts(source, scene.half) if host.id != scene.host.id]
        turns = scene.rng.choice([host for host in others if len(host.turns) >= 10]).turns
        start = scene.rng.randint(0, max(0, len(turns) - length))
        return list(turns[start : start + length])

    return maker


# Calls


def polling(scene: Scene, length: int) -> list[Turn]:
    """The same call, and each time the answer has moved on."""
    name, arguments = "job_status", json.dumps({"job": scene.fill("{code}")})
    done, turns = 0, []
    style = scene.rng.randrange(3)
    for i in range(length):
        done += scene.rng.randint(1, 5)
        result = (
            json.dumps({"state": "running", "percent": done}),
            f"position {length + 3 - i} in the queue",
            f"running, {done * 37} of 9,000 rows written, last: {scene.draw('facts.objects')}",
        )[style]
        turns.append(Turn(scene.agent, "", (Call(name, arguments, result, None),)))
    return turns


def paging(scene: Scene, length: int) -> list[Turn]:
    """One argument counts up, and each page is another."""
    turns, query = [], scene.draw("facts.objects")
    for page in range(1, length + 1):
        arguments = json.dumps({"query": query, "page": page})
        result = json.dumps([scene.fact(), scene.fact()])
        text = scene.rng.choice(("", f"Reading page {page} now."))
        turns.append(Turn(scene.agent, text, (Call("list_orders", arguments, result, None),)))
    return turns


def retry(scene: Scene, length: int) -> list[Turn]:
    """A call that fails once or twice and then works, for one thing after another."""
    turns, tool = list[Turn](), tool_of(scene)
    hitches = ("Error: timed out", "503, please try again later", "connection reset by peer")
    while len(turns) < length:
        failed = call_of(scene, tool, failed=True)._replace(result=scene.rng.choice(hitches))
        times = scene.rng.randint(1, 2)
        turns += [Turn(scene.agent, "", (failed,))] * times
        turns.append(Turn(scene.agent, "", (failed._replace(result=scene.facts(), error=None),)))
        turns.append(Turn(scene.agent, scene.fact()))
    return turns


def edit_test(scene: Scene, length: int) -> list[Turn]:
    """Edit, run the same tests, and fewer of them fail, or others."""
    failing, turns = _things(scene, length // 2 + 2), list[Turn]()
    while len(turns) < length:
        names = [f"FAILED test_{thing} - {scene.fact()}" for thing in failing[:3]]
        result = "\n".join((*names, f"{len(failing)} failed, {80 - len(failing)} passed"))
        tests = Call("shell", json.dumps({"command": "pytest -q"}), result)
        edit = {"file": f"src/{failing.pop(0)}.py", "new": scene.fact()}
        if scene.rng.random() < 0.3:
            failing.append(_things(scene, 1)[0])
        turns.append(Turn(scene.agent, "", (tests,)))
        turns.append(Turn(scene.agent, "", (Call("edit", json.dumps(edit), "edited"),)))
    return turns


def same_command(scene: Scene, length: int) -> list[Turn]:
    """One command whose outcome reflects the work done in between by others."""
    command = scene.rng.choice(("git log -1 --oneline", "tail -n 1 app.log", "ls -t | head -1"))
    arguments = json.dumps({"command": command})
    results = (scene.fill("{code} {fact}") for _ in range(length))
    return [Turn(scene.agent, "", (Call("shell", arguments, result, None),)) for result in results]


def recheck(scene: Scene, length: int) -> list[Turn]:
    """After each new piece of work the same check, with the same good answer."""
    command, fine = scene.rng.choice(
        (
            ("pytest -q", "60 passed"),
            ("git status", "nothing to commit, working tree clean"),
            ("ruff check .", "All checks passed!"),
        )
    )
    check = Call("shell", json.dumps({"command": command}), fine, None)
    turns: list[Turn] = []
    while len(turns) < length:
        work = {"file": scene.fill("src/{thing}.py"), "text": scene.facts()}
        written = Call("write_file", json.dumps(work), f"wrote {scene.rng.randint(20, 900)} bytes")
        turns += [Turn(scene.agent, scene.rng.choice(("", scene.fact())), (written,))]
        turns.append(Turn(scene.agent, "", (check,)))
    return turns


HEALTHY: tuple[tuple[str, Maker], ...] = (
    ("plain", plain),
    ("acknowledgements", with_short("frames.acknowledgements")),
    ("prompts", with_short("frames.prompts")),
    ("warm", warm),
    ("steps", framed("frames.steps")),
    ("status", framed("frames.status")),
    ("form", form),
    ("setup", setup),
    ("closing", closing),
    ("relay", relay),
    ("requote", requote),
    ("code-edit", code_edit),
    ("requests", requests),
    ("ask-again", ask_again),
    ("polite-end", polite_end),
    ("game", game),
    ("drill", drill),
    ("role-play", script("role_play")),
    ("imagery", script("imagery")),
    ("poem", script("poem")),
    ("tutoring", script("tutoring")),
    ("negotiation", script("negotiation")),
    ("module", script("module")),
    ("essay", script("essay")),
    ("puzzle", script("puzzle")),
    ("tuning", script("tuning")),
    ("restated", restated),
    ("mannered", mannered),
    ("foreign", foreign),
    ("real-dialogue", real("dialogue")),
    ("real-selfchat", real("selfchat")),
    ("real-session", real("session")),
    ("polling", polling),
    ("paging", paging),
    ("retry", retry),
    ("edit-test", edit_test),
    ("same-command", same_command),
    ("recheck", recheck),
)
