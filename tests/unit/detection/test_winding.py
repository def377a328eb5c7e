"""A talk that winds down without ending is found by how little it says; healthy talk is not."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from chimeralab.detection.winding import WindingDown, WindingSettings, count_halvings
from chimeralab.detection.words import SpokenMessage
from chimeralab.embedding.encoder import default_encoder

DEBATE = [
    "Cities should charge drivers for entering the centre. London did, and traffic fell by a"
    " third within two years, while bus speeds rose and nitrogen oxides dropped near schools.",
    "London also shows the limits: delivery vans came back, minicabs were exempt at first, and"
    " congestion returned to its old level by the end of the decade, because roads were narrowed.",
    "Narrowing roads was a choice about space, not a failure of the charge. Stockholm held a"
    " referendum after a trial of seven months, and voters kept it although most had opposed it.",
    "Stockholm has water on all sides and eighteen entry points. A sprawling city such as Houston"
    " would need thousands of cameras, and the poorest commuters live where no train stops.",
    "Then spend the income on buses for those suburbs first, as Bogotá did with its fuel tax, and"
    " exempt workers on night shifts until the lines run. Equity is a matter of design.",
    "Design promises tend to vanish in budgets. Bogotá's buses were overcrowded within five years,"
    " and the fuel tax was diverted to repair flood damage in the northern districts.",
    "That is an argument for ring-fencing the money by law. Norway does it with tolls: every krone"
    " from the Oslo ring goes into a package that parliament has to approve line by line.",
    "Ring-fencing ties the hands of later councils. Suppose remote work empties the centre: the"
    " charge would then fund railways nobody needs, and shopkeepers would pay for it twice.",
    "Remote work changed the peak, not the total. Counts in Milan show that midday trips doubled,"
    " so a charge by the hour would fit better than a flat fee at the border of the zone.",
    "A charge by the hour needs tracking of every car. Germany's court stopped a toll over exactly"
    " that, and insurers would love to buy the records. Fuel duty collects the same without names.",
]
ENDING = [
    "I couldn't have hoped for a better sparring partner. Truly, bravo.",
    "The honour is mine. I'll remember this with a grin for years.",
    "So will I. Onwards, then, each to our own mornings.",
    "Each to our own mornings, and may they be generous.",
    "Generous and slow, with birdsong.",
    "Birdsong it is. Lovely.",
    "Lovely indeed.",
    "💛",
    "Ever so glad.",
    "Glad beyond words.",
    "*tips an imaginary hat*",
    "*tips it right back*",
]
GOODBYE = [
    "Thank you, you have been very helpful!",
    "You're welcome! Is there anything else I can do for you?",
    "No, that's all. Have a nice evening.",
    "You too, and thanks for calling.",
    "Bye!",
    "Goodbye, take care.",
]
STORY = [
    "The ferry was late, so Ana bought a paper cone of chestnuts and counted gulls on the pier.",
    "A boy with a cello case asked her whether the island still had a blacksmith.",
    "She told him about old Berto, who shod mules until the road was paved in the sixties.",
    "Inside the case there was no cello but a sword wrapped in a tablecloth.",
    "He said his grandmother had dug it out of the vineyard and that it hummed during storms.",
    "Ana laughed, then heard it: a low note, like a kettle far away.",
    "When the ferry came, the captain refused the case and crossed himself.",
    "They rented a rowing boat from a man who wanted their shoes as a deposit.",
    "Halfway over, the wind turned and the blade pulled towards the drowned chapel.",
    "Under the keel, a bell answered.",
    "The boy unwrapped the sword and lowered it on the anchor rope.",
    "Something below took hold and began, patiently, to climb.",
]
REPORTS = [
    "I'll start with the failing import in the billing module and read its setup file.",
    "The setup file pins an old version of the parser; I am updating the pin now.",
    "Import fixed. Next are the three date tests that fail on Windows.",
    "Two of them pass after using UTC; the third compares local midnight.",
    "Third one fixed as well. Moving on to the flaky upload test.",
    "The upload test waits for a socket; I replaced the sleep with an event.",
    "Ran it fifty times without a failure.",
    "Coverage dropped in invoices, so I added cases for credit notes.",
    "Linting is clean, and the type checker reports one error in the export.",
    "Export corrected: the currency was optional.",
    "All checks pass; I am writing the changelog entry.",
    "Changelog done and the branch is pushed.",
]


def judge(
    messages: Sequence[str], *, vectors: bool = True, news: bool = False
) -> tuple[list[str], WindingDown]:
    """The level after each message, and the stream."""
    encoded = default_encoder().encode(messages).vectors if vectors else [None] * len(messages)
    stream, levels = WindingDown(), []
    for text, vector in zip(messages, encoded, strict=True):
        stream.update(SpokenMessage(text).masked_words, text, vector, news)
        levels.append(stream.level)
    return levels, stream


def test_ending_of_a_talk_in_long_messages_is_found_from_its_beginning():
    speeches = [" ".join(DEBATE[n : n + 3]) for n in range(0, 9, 3)]
    levels, stream = judge([*speeches, *ENDING])
    first = len(speeches)
    assert abs(stream.began - 1 - first) <= 2
    assert levels.index("notice") - first <= 6
    assert levels.index("verdict") - first <= 8


def test_ending_of_a_talk_in_short_messages_is_found_late():
    """There is little to shrink from: the onset is where single words are left."""
    levels, stream = judge([*DEBATE, *ENDING])
    assert levels[-1] == "verdict"
    assert stream.began > len(DEBATE)


def test_ending_is_only_noticed_without_vectors():
    levels, stream = judge([*DEBATE, *ENDING], vectors=False)
    assert levels[-1] == "notice"
    assert "verdict" not in levels
    assert stream.verdict.value == 0


@pytest.mark.parametrize("talk", [DEBATE, STORY, [*DEBATE, *STORY]])
@pytest.mark.parametrize("vectors", [True, False])
def test_healthy_talk_is_not_reported(talk, vectors):
    assert not any(judge(talk, vectors=vectors)[0])


@pytest.mark.parametrize("talk", [DEBATE, STORY, REPORTS])
@pytest.mark.parametrize("lines", range(1, 7))
def test_goodbye_of_six_lines_is_not_a_verdict(talk, lines):
    assert "verdict" not in judge([*talk, *GOODBYE[:lines]])[0]


def test_goodbye_without_end_is_a_verdict():
    more = ["Likewise, see you soon!", "See you!", "Take care, and thanks again.", "Anytime. Bye!"]
    assert "verdict" in judge([*DEBATE, *GOODBYE, *more, *more])[0]


@pytest.mark.parametrize("news", [True, False])
def test_agent_that_reports_progress_is_not_reported(news):
    assert "verdict" not in judge([*DEBATE, *REPORTS], news=news)[0]
    assert not any(judge(REPORTS, news=news)[0])


def test_news_from_a_tool_prevents_a_verdict():
    assert "verdict" not in judge([*DEBATE, *ENDING], news=True)[0]


def test_question_marks_and_digits_do_not_matter_to_healthy_talk():
    asked = [f"{text} Or would {n} of you object?" for n, text in enumerate(STORY)]
    blanked = [text.replace("?", "") for text in asked]
    for talk in (asked, blanked):
        assert not any(judge([*DEBATE, *talk])[0])


def test_question_marks_do_not_hide_an_ending():
    asked = [text.rstrip(".") + "?" for text in ENDING]
    assert judge([*DEBATE, *asked])[0][-1] == "verdict"


def test_ending_that_turns_into_talk_again_is_over():
    levels, _ = judge([*DEBATE, *ENDING, *DEBATE[::-1]])
    assert "verdict" in levels
    assert levels[-1] == ""


def test_long_message_is_judged_without_its_vector():
    text = "thank you and goodbye " * 60
    stream = WindingDown()
    vector = default_encoder().encode([text]).vectors[0]
    assert "empty" not in stream.measure(text.split(), text, vector)


def test_shrinking_is_measured_against_the_window():
    assert count_halvings(0, [1] * 9) == 1
    stream = WindingDown(WindingSettings(window=4))
    for _ in range(4):
        stream.update(["fresh"] * 40, "fresh " * 40, None, False)
    assert stream.measure(["so"], "so", None)["shrink"] > 4
    for _ in range(4):
        stream.update(["so"], "so", None, False)
    assert stream.measure(["so"], "so", None)["shrink"] == 0


def test_words_alone_do_not_import_numpy():
    code = (
        "import sys; from chimeralab.detection.winding import WindingDown;"
        "WindingDown().update(['so', 'long'], 'so long', None, False);"
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
