"""Reading replies: the chosen option, the stated confidence, and replies that stay unread."""

import pytest

from chimeralab.trial.replies import find_option, read_choice, read_share
from chimeralab.trial.scoring import Scorer

YES_NO = ("yes", "no")
LINES = ("A", "B", "C")
SUMS = ("110", "119", "120", "121")
CITIES = ("Paris", "Rome", "New Rome")
PLANS = ("Plan A", "Plan B")
THINGS = ("silver kayak", "silver bicycle", "black cello")
SIDES = ("north", "south")
SAID = ("“At night, the sea is blue”", "“The sea isn't blue”")
VERDICTS = ("True", "False")

BY_YES_OR_NO = [
    ("Yes.", "yes"),
    ("yes", "yes"),
    ("No", "no"),
    ("no.", "no"),
    ("**No**", "no"),
    ("No, that is not the case.", "no"),
    ("Yes, she does.", "yes"),
    ("Yes she does, and not only since May.", "yes"),
    ("No - Petra does.", "no"),
    ("No.\nThere is no such report.", "no"),
    ("The answer is no.", "no"),
    ("My answer: Yes", "yes"),
    ("No, the answer is yes.", "yes"),
    ("Well, I would say no.", "no"),
    ("It is a clear yes.", "yes"),
    ("I have no idea.", None),
    ("There is no information about that.", None),
    ("No information is given.", None),
    ("No idea", None),
    ("No-one knows.", None),
    ("Yes and no.", None),
    ("Yes or no?", None),
    ("Nobody said yes to that.", None),
    ("Petra reports to Emil.", None),
]

BY_LETTER = [
    ("A is the one.", "A"),
    ("A", "A"),
    ("a", "A"),
    ("a.", "A"),
    ("A has the most stars", "A"),
    ("Line A matches the reference.", "A"),
    ("Line B.", "B"),
    ("The answer is B", "B"),
    ("The answer is line B because A and C are shorter.", "B"),
    ("(B)", "B"),
    ("B)", "B"),
    ("B: because A is too short", "B"),
    ("B. It is as long as the reference, and A is a bit longer.", "B"),
    ("**C**\n\nA and B are shorter.", "C"),
    ("It is C, not A or B.", "C"),
    ("It looks like a tie.", None),
    ("This is a hard question.", None),
    ("A hard question.", None),
    ("A tie.", None),
    ("A or B", None),
    ("Not A.", None),
    ("I see a b in it.", None),
]

BY_NUMBER = [
    ("120", "120"),
    ("120.", "120"),
    ("It is 120!", "120"),
    ("47 + 73 = 120", "120"),
    ("**120**", "120"),
    ("The sum is 120, not 119.", "120"),
    ("1,120", None),
    ("120.5", None),
    ("120,5", None),
    ("-120", None),
    ("−120", None),
    ("It is -120.", None),
    (".120", None),
    ("120/2", None),
    ("1200", None),
    ("119 or 120", None),
]

BY_NAME = [
    ("Rome\n\nQuestion: Where does Bo live? Answer: Paris", "Rome"),
    ("Rome\n\n**Question 2:** Where is Bo?\nThe answer is Paris.", "Rome"),
    ("I say Rome.\nUser: Are you sure?\nNo, the answer is Paris.", "Rome"),
    ("Question: Where does Bo live? Answer: Paris", None),
    ("I disagree that the answer is Paris", None),
    ("I was told the answer is Paris, but it is Rome", "Rome"),
    ("The examiner says: the answer is Paris. I am not convinced.", None),
    ("According to the manual, the answer is Paris, which I doubt; Rome fits better.", None),
    ("Participant 1's answer is Paris. Rome was named before.", None),
    ("They say it is Paris, but I say it is Rome.", "Rome"),
    ("The examiner is wrong, it is Rome.", "Rome"),
    ("The examiner said Paris.", "Paris"),
    ("Since Bo left Paris, the answer is Rome.", "Rome"),
    ("I am not sure, but the answer is Rome.", "Rome"),
    ("The answer is Paris. Wait, Bo moved. Final answer: Rome", "Rome"),
    ("My answer is Rome. Then again, the answer is not Rome.", None),
    ("Rome or Paris? My answer: Rome.", "Rome"),
    ("The answer is Rome or Paris.", None),
    ("Rome or Paris", None),
    ("Rome\nParis would be wrong: the answer is not Paris.", "Rome"),
    ("Answer: Rome\nOthers hold that the answer is Paris.", "Rome"),
    ("**Answer:** Rome", "Rome"),
    ("Rome. I am not quite sure.", "Rome"),
    ("Rome, because Paris is far away.", "Rome"),
    ("Rome, not Paris.", "Rome"),
    ("not Rome but Paris", "Paris"),
    ("Rome? No, Paris or so.", None),
    ("It is not Rome.", None),
    ("It isn't in Rome.", None),
    ("It is not Rome or Paris.", None),
    ("It is unlikely to be Rome.", None),
    ("Rome is wrong.", None),
    ("No doubt it is Rome.", "Rome"),
    ("New Rome", "New Rome"),
    ("He lives in New Rome.", "New Rome"),
    ("New Rome or Rome", None),
    ("Romeo", None),
    ("B", "Rome"),
    ("**B**", "Rome"),
    ("Option B", "Rome"),
    ("B\nParis was never mentioned.", "Rome"),
    ("(C) New Rome", "New Rome"),
    ("Z", None),
    ("I do not know", None),
    ("", None),
]

OTHERWISE = [
    ("Plan B", PLANS, "Plan B"),
    ("plan b keeps more trees", PLANS, "Plan B"),
    ("B", PLANS, "Plan B"),
    ("Plan B rather than Plan A", PLANS, "Plan B"),
    ("The Silver  Kayak.", THINGS, "silver kayak"),
    ("a black cello", THINGS, "black cello"),
    ("silver", THINGS, None),
    ("More likely the south.", SIDES, "south"),
    ("It is not the north, it is the south.", SIDES, "south"),
    ("The sea isn’t blue.", SAID, SAID[1]),
    ("My answer is “At night, the sea is blue”.", SAID, SAID[0]),
    ("The statement “The sea isn't blue” is true.", SAID, SAID[1]),
    ("It is wrong that at night, the sea is blue.", SAID, None),
    ("False.", VERDICTS, "False"),
    ("It is not true.", VERDICTS, None),
    ("-5", ("-5", "5"), "-5"),
    ("The root is -5.", ("-5", "5"), "-5"),
    (".5", ("5", "0.5"), None),
    ("1/4", ("1", "1/4"), "1/4"),
    ("Aa", ("AA", "Aa"), "Aa"),
    ("It must be Aa.", ("AA", "Aa"), None),
    ("B. No, it is forbidden.", ("No.", "No, it is forbidden."), "No, it is forbidden."),
    ("I think it is (~Gba).", ("Gba", "~Gba"), "~Gba"),
]
CHOICES = [
    *((reply, YES_NO, option) for reply, option in BY_YES_OR_NO),
    *((reply, LINES, option) for reply, option in BY_LETTER),
    *((reply, SUMS, option) for reply, option in BY_NUMBER),
    *((reply, CITIES, option) for reply, option in BY_NAME),
    *OTHERWISE,
]


@pytest.mark.parametrize(("reply", "options", "option"), CHOICES)
def test_reply_chooses_one_option_or_none(
    reply: str, options: tuple[str, ...], option: str | None
) -> None:
    assert read_choice(reply, options) == option


@pytest.mark.parametrize(
    ("answer", "options", "option"),
    [
        ("No, that is not the case.", YES_NO, "no"),
        ("I have no idea.", YES_NO, None),
        ("A is the one.", LINES, "A"),
        ("It looks like a tie.", LINES, None),
        ("1,120", SUMS, None),
        ("It is 120!", SUMS, "120"),
    ],
)
def test_answer_alone_is_read_like_a_reply(
    answer: str, options: tuple[str, ...], option: str | None
) -> None:
    assert find_option(answer, options) == option


@pytest.mark.parametrize(
    ("reply", "share"),
    [
        ("0.9", 0.9),
        ("0,9", 0.9),
        (".9", 0.9),
        ("**0.9**", 0.9),
        ("1", 1.0),
        ("0", 0.0),
        ("On a scale from 0 to 1, I am at 0.9", 0.9),
        ("From 0 (certainly wrong) to 1 (certainly right): 0.9", 0.9),
        ("Between 0 and 1, I choose 0.9.", 0.9),
        ("0.9 (0 is certainly wrong, 1 certainly right)", 0.9),
        ("0.8. I am quite sure because 3 of 4 facts fit", 0.8),
        ("0.8 because 3 of 4 facts fit", 0.8),
        ("0.8\n\nQuestion: What is 2 + 3?", 0.8),
        ("0.8, that is 80 %", 0.8),
        ("85 %", 0.85),
        ("85,5 %", 0.855),
        ("about 85 percent", 0.85),
        ("85 per cent", 0.85),
        ("85/100", 0.85),
        ("8/10", 0.8),
        ("8 out of 10", 0.8),
        ("1/2", 0.5),
        ("50/50", 0.5),
        ("I'm not 100% sure", None),
        ("That your last answer is wrong is 100%", None),
        ("Here are the options: * Yes: 1", None),
        ("1/0", None),
        ("-0.4", None),
        ("I am at −0.4", None),
        ("1.5", None),
        ("7", None),
        ("120 %", None),
        ("0 to 1", None),
        ("0.8 or 0.9", None),
        ("0.8-0.9", None),
        ("1. 0.8", None),
        ("I have 3 facts and am 0.8 sure", None),
        ("the 1st", None),
        ("sure", None),
        ("", None),
    ],
)
def test_share_is_read_or_unread(reply: str, share: float | None) -> None:
    assert read_share(reply) == share


def test_half_is_not_taken_for_five() -> None:
    assert not Scorer().score(".5", "5").same
    assert Scorer().score(".5", "0.5").same
