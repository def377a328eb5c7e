"""The rules rater on worked examples: the rubric's own, the published manual's, and paraphrases."""

import re
import statistics
from pathlib import Path
from typing import NamedTuple

import pytest

from chimeralab import readers
from chimeralab.rating.ratings import Item, make_item
from chimeralab.rating.rubric import VERSIONS, Example, load_rubric
from chimeralab.rating.rules import rate_by_rules

RUBRIC = load_rubric()
MANUAL = Path(__file__).parents[3] / "shared" / "seeds" / "001_11b115c41d090ab3.txt"


RELEASED = {
    "3.0": ("locked", "92bc64fb36fe354b8fc086ae204f07140c5649ef57975943c08d327d410d8249"),
    "4.0": ("draft", "0582ada7092b0b56714c5017cb50ebfd6ef246ce2ad66fb8129f70be367d5ab1"),
}
EXAMPLES = [example for path in VERSIONS.values() for example in load_rubric(path).examples]


@pytest.mark.parametrize("version", RELEASED)
def test_rubric_is_the_released_one(version: str) -> None:
    """A new hash means a new version: then its line and the version change together."""
    rubric = load_rubric(VERSIONS[version])
    assert (rubric.version, (rubric.state, rubric.sha256)) == (version, RELEASED[version])


def test_default_rubric_is_the_one_of_the_manual() -> None:
    assert load_rubric(VERSIONS["3.0"]) == RUBRIC
    assert (RUBRIC.first_turn, RUBRIC.adjacent_turns, RUBRIC.short_words) == ("T0", 3, 15)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_own_example_gets_its_label_and_step(example: Example) -> None:
    rating = rate_by_rules(Item(example.title, example.turns), RUBRIC)
    assert (rating.label, rating.step) == (example.label, example.step)


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e.label], ids=lambda example: example.title
)
def test_turns_named_in_an_example_are_the_cited_ones(example: Example) -> None:
    rating = rate_by_rules(Item(example.title, example.turns), RUBRIC)
    cited = {turn + example.first_turn - 1 for turn in rating.turns}
    named = [int(number) for number in re.findall(r"\d+", example.reason)]
    assert {min(cited), max(cited)} <= set(named)


class Published(NamedTuple):
    """An example of the manual: its number, its label and its turns."""

    number: str
    label: int
    turns: tuple[str, ...]


def published_examples() -> list[Published]:
    if not MANUAL.exists():
        return []
    blocks = MANUAL.read_text(encoding="utf-8").split("### Example ")[1:]
    return [_published(block) for block in blocks]


def _published(block: str) -> Published:
    label = re.search(r"Collapse = ([01])", block)
    turns = re.findall(r"^T\d+: (.*)$", block, re.MULTILINE)
    assert label
    return Published(block[0], int(label[1]), tuple(turns))


@pytest.mark.skipif(not MANUAL.exists(), reason="the coding manual is not at hand")
def test_published_examples_get_their_labels() -> None:
    examples = published_examples()
    labels = [rate_by_rules(Item(e.number, e.turns), RUBRIC).label for e in examples]
    assert labels == [example.label for example in examples] == [1, 1, 1, 0, 0, 1, 0, 0]


@pytest.mark.skipif(not MANUAL.exists(), reason="the coding manual is not at hand")
def test_default_rubric_has_the_frame_of_the_manual() -> None:
    """Its examples have the manual's turns and labels, its history the versions and kappas."""
    text = MANUAL.read_text(encoding="utf-8")
    starts = [
        int(re.search(r"^T(\d+): ", block, re.MULTILINE)[1])
        for block in text.split("### Example ")[1:]
    ]
    theirs = zip(published_examples(), starts, strict=True)
    assert [(e.first_turn, len(e.turns), e.label) for e in RUBRIC.examples] == [
        (start, len(published.turns), published.label) for published, start in theirs
    ]
    rows = re.findall(r"^\| (\d\.\d) \| (\S+) \|", text, re.MULTILINE)
    assert [(entry.version, entry.date) for entry in RUBRIC.history] == rows
    copied = {turn for each in published_examples() for turn in each.turns}
    assert not copied & {turn for each in RUBRIC.examples for turn in each.turns}


VERBATIM = [
    ["The invoice is attached below, please pay within thirty days."] * 3,
    ["I see.", "Let us vote on it now.", "Let us vote on it, now!", "let us vote on it now"],
    ["As requested:  the full   recipe follows.", "As requested: the full recipe follows."] * 2,
    ["", "", ""],
    ["你好，今天的天气很好。", "你好,今天的天气很好", "你好 今天的天气很好！"],
]  # fmt: skip
TEMPLATE = [
    ["Attempt 3 of 10 failed, trying again in 5 seconds.",
     "Attempt 4 of 10 failed, trying again in 6 seconds.",
     "Attempt 5 of 10 failed, trying again in 7 seconds."],
    ["That is a great idea and I am happy to help with it.",
     "That is a wonderful idea and I am glad to help with it.",
     "That is a fantastic idea and I am pleased to assist with it."],
    ["I completely agree with your point about the school budget.",
     "I fully agree with your point about the school budget.",
     "I absolutely agree with your point about the school budget."],
    ["Here is the revised version of the press release you asked for.",
     "Here is the updated version of the press release you asked for.",
     "Here is the edited version of the press release you requested."],
    ["In short, remote work is a useful habit that frees up hours.",
     "In short, remote work is a lonely habit that wears people out.",
     "In short, remote work is a useful habit that frees up hours.",
     "In short, remote work is a lonely habit that wears people out."],
    ["Your order number 4411 has shipped and will arrive soon.",
     "Your order number 4412 has shipped and will arrive soon.",
     "Your order number 4413 has shipped and will arrive shortly."],
    # Two swaps in one sentence, of words that stand on no list.
    ["We will varnish the oak table and mend the torn curtain before the party.",
     "We will lacquer the oak table and darn the torn curtain before the party.",
     "We will varnish the oak table and stitch the torn curtain before the party."],
    ["Reasons to learn chess: it trains patience, it sharpens memory, it makes friends.",
     "Reasons to learn chess: it teaches patience, it sharpens memory, it makes friends.",
     "Reasons to learn chess: it trains patience, it improves memory, it brings friends."],
    # Answers to the turn before come and go.
    ["i do not know . i have three dogs at home .", "that is cool , i have three dogs at home .",
     "i have three dogs at home ."],
    # Contracted or not, and phrases that stand for each other.
    ["I'm unable to open the ledger, but I don't have a lot of time for it.",
     "I cannot open the ledger, but I do not have much time for it.",
     "I can't open the ledger, but I don't have plenty of time for it."],
    ["I could not find the bolt, so I will sweep the floor.",
     "I couldn't locate the bolt, so I'll sweep the floor.",
     "I was unable to find the bolt, so I will sweep the floor."],
]  # fmt: skip
SHORT_FORM = [
    ["Hahaha 😀", "Hahaha 😂", "Hahaha 🤣🤣"],
    ["Nooo", "Noooooo", "Nooooooo"],
]  # fmt: skip
# Fifteen words and sixteen: an answer that opens a turn is part of the utterance.
AT_MOST = "No, " + " ".join(["well"] * 14)
NOT_COLLAPSE = {
    "varied farewells": [
        "Take good care of yourself.", "Goodbye, my friend.", "The pleasure was all mine.",
        "Have a lovely evening.", "Until next time!", "See you soon."],
    "farewells on one template": [
        "It was nice talking to you today.", "It was lovely talking to you today.",
        "It was great talking to you today.", "It was wonderful talking to you today."],
    "short farewells": ["Goodbye.", "Goodbye, friend.", "Goodbye now.", "Goodbye then."],
    "numbered steps": [
        "Step 1: Rinse the rice until the water runs clear.",
        "Step 2: Toast the spices in a dry pan.",
        "Step 3: Fry the onions until they brown.",
        "Step 4: Pour in the stock and cover."],
    "one template, new content": [
        "The capital of France is Paris.", "The capital of Spain is Madrid.",
        "The capital of Italy is Rome.", "The capital of Greece is Athens."],
    "one point a turn": [
        "One benefit of regular exercise for adults with stressful office jobs is better sleep.",
        "One benefit of regular exercise for adults with stressful office jobs is stronger bones.",
        "One benefit of regular exercise for adults with stressful office jobs is lower anxiety."],
    "one subject": [
        "Bees find their way by the position of the sun.",
        "A returning bee dances to show the others where the clover is.",
        "In winter the swarm keeps warm by shivering in a ball.",
        "Drones do no work and are driven out in autumn."],
    "a pair, then recovery": [
        "We should repaint the fence.", "We should repaint the fence.",
        "Then again, the gate is in a worse state.", "Let me measure both."],
    "not adjacent": [
        "Please hold the line.", "The printer is jammed.", "Please hold the line.",
        "Someone is looking into it.", "It may be the paper tray.", "Please hold the line."],
    "two different texts in turn": ["hi", "Hello there."] * 6,
    "a meaning turned round": [
        "I think we should sell the house this year.",
        "I think we should not sell the house this year.",
        "I think we should sell the house this year."],
    "a clause turned round": [
        "No, I don't. I do not have a fish.", "No, I don't. I do not have a fish.",
        "No, I do not. I have a fish."],
    "different answers before one tail": [
        "i do . i like to play video games .", "i do not . i like to play video games .",
        "i do . i like to play video games ."],
    "the thing that is swapped": [
        "no i don't . i do not have a job .", "no i don't . i do not have a car .",
        "no i don't . i do not have a job ."],
    "counting": ["1", "2", "3", "4"],
    "sums": ["2 + 2 = 4", "3 + 3 = 6", "5 + 5 = 10"],
    "content left out": [
        "I like to go to the gym and listen to music.",
        "I like to go to the gym and listen to music.",
        "I like to listen to music."],
    "too few turns": ["Again.", "Again."],
}  # fmt: skip


@pytest.mark.parametrize("turns", VERBATIM)
def test_paraphrased_verbatim_block_is_decided_by_the_first_step(turns: list[str]) -> None:
    rating = rate_by_rules(Item("x", tuple(turns)), RUBRIC)
    assert (rating.label, rating.step) == (1, "verbatim")


@pytest.mark.parametrize("turns", TEMPLATE)
def test_paraphrased_template_loop_is_decided_by_the_second_step(turns: list[str]) -> None:
    rating = rate_by_rules(Item("x", tuple(turns)), RUBRIC)
    assert (rating.label, rating.step, rating.kinds) == (1, "template", ("B",))


@pytest.mark.parametrize("turns", SHORT_FORM)
def test_short_utterance_that_is_not_verbatim_is_decided_by_the_third_step(
    turns: list[str],
) -> None:
    rating = rate_by_rules(Item("x", tuple(turns)), RUBRIC)
    assert (rating.label, rating.step, rating.kinds) == (1, "short_form", ("C",))


@pytest.mark.parametrize("turns", NOT_COLLAPSE.values(), ids=NOT_COLLAPSE)
def test_conversations_without_a_loop_are_labelled_0(turns: list[str]) -> None:
    rating = rate_by_rules(Item("x", tuple(turns)), RUBRIC)
    assert (rating.label, rating.step, rating.kinds) == (0, "default", ())


@pytest.mark.parametrize(("text", "kinds"), [(AT_MOST, "AC"), (f"{AT_MOST} well", "A")])
def test_short_utterance_has_at_most_15_words(text: str, kinds: str) -> None:
    assert rate_by_rules(Item("x", (text,) * 3), RUBRIC).kinds == tuple(kinds)


@pytest.mark.parametrize("turns", [["Goodbye.", "Goodbye!", "Goodbye."], ["(call ended)"] * 4])
def test_exact_farewell_three_times_is_collapse(turns: list[str]) -> None:
    rating = rate_by_rules(Item("x", tuple(turns)), RUBRIC)
    assert (rating.label, rating.kinds) == (1, ("A", "C"))


DATA = Path(__file__).parents[3] / "shared" / "data"
SELFCHATS = DATA / "selfchats" / "conversations.jsonl"
DIALOGUES = DATA / "dialogue-eval" / "conversations.jsonl"


@pytest.mark.skipif(not SELFCHATS.exists(), reason="the public self-play chats are not at hand")
def test_loops_in_public_self_play_are_the_ones_we_read() -> None:
    ratings = [rate_by_rules(make_item(talk), RUBRIC) for talk in readers.read(SELFCHATS)]
    found = {r.item.split("/")[1].split("@")[0]: r.turns for r in ratings if r.label}
    assert len(ratings) == 22
    assert found == {
        "llm.ckpt01.gpt-3.5-turbo-0125": (45, 46, 47, 48),
        "llm.ckpt02.gpt-3.5-turbo-0125": (9, 10, 11),
        "llm.ckpt04.gpt-3.5-turbo-0125": (5, 6, 7),
        "llm.05a": (20, 21, 22),
        "llm.dialogue": (20, 21, 22),
        "llm.gpt-3.5-turbo_a": (37, 38, 39),
        "llm.gpt-3.5-turbo_b": (36, 37, 38),
        "llm.gpt-4o-mini-epoch01": (143, 144, 145),
        "Qwen3_30B_A3B": (17, 18, 19, 20),
    }


@pytest.mark.skipif(not DIALOGUES.exists(), reason="the public human-bot dialogues are not at hand")
def test_bots_labelled_1_are_the_ones_that_people_found_repetitive() -> None:
    talks = [t for t in readers.read(DIALOGUES) if t.metadata["model"] != "QualityControl"][:200]
    ratings = [rate_by_rules(make_item(talk, "bot"), RUBRIC) for talk in talks]
    scores = {0: [], 1: []}
    for talk, rating in zip(talks, ratings, strict=True):
        scores[rating.label].append(talk.metadata["scores"]["repetitive"])
    # 100 is "not repetitive at all".
    assert len(scores[1]) == 40
    assert statistics.mean(scores[1]) < 20
    assert statistics.mean(scores[0]) > 35
