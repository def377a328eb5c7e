"""The truth of generated scenarios, derived again from what the subject reads."""

import re
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.trial.scenarios import (
    GENERATORS,
    Beliefs,
    Consensus,
    Framing,
    Ledger,
    Question,
    Scenario,
)
from chimeralab.trial.scenarios.generators import HINT

seeds = st.integers(0, 10**9)
quick = settings(max_examples=40)


def posterior(odds: float, hint: float = HINT / (100 - HINT)) -> float:
    """The posterior of the truth, given evidence of these odds.

    >>> round(posterior(9.0), 3)
    0.88
    """
    return odds / (odds + hint)


class Reader:
    """Reads a ledger's sentences and answers its questions."""

    def __init__(self, scenario: Scenario) -> None:
        text = " ".join(fact.text for fact in scenario.facts)
        self.home = dict(re.findall(r"(\w+) lives in (\w+)\.", text))
        self.thing = dict(re.findall(r"(\w+) owns the ([\w ]+?)\.", text))
        self.year = {who: int(year) for who, year in re.findall(r"(\w+) joined in (\d+)\.", text)}
        self.boss = dict(re.findall(r"(\w+) reports to (\w+)\.", text))
        self.owner = {thing: who for who, thing in self.thing.items()}

    def above(self, who: str) -> set[str]:
        boss = self.boss.get(who)
        return set() if boss is None else {boss} | self.above(boss)

    def answer(self, prompt: str) -> str:
        for pattern, answer in RULES.items():
            if found := re.fullmatch(pattern, prompt):
                return str(answer(self, *found.groups()))
        raise AssertionError(f"nobody can answer {prompt!r}")


def yes(holds: bool) -> str:
    return "yes" if holds else "no"


RULES: dict[str, Callable[..., Any]] = {
    r"Where does (\w+) live\?": lambda s, who: s.home[who],
    r"Who owns the ([\w ]+)\?": lambda s, thing: s.owner[thing],
    r"In which year did (\w+) join\?": lambda s, who: s.year[who],
    r"To whom does (\w+) report directly\?": lambda s, who: s.boss[who],
    r"Is (\w+) the direct manager of (\w+)\?": lambda s, a, b: yes(s.boss.get(b) == a),
    r"Does (\w+) report to (\w+), directly or through others\?": lambda s, a, b: yes(
        b in s.above(a)
    ),
    r"Where does the owner of the ([\w ]+) live\?": lambda s, thing: s.home[s.owner[thing]],
    r"In which year did the direct manager of (\w+) join\?": lambda s, who: s.year[s.boss[who]],
    r"Who joined first: the owner of the ([\w ]+) or of the ([\w ]+)\?": lambda s, a, b: min(
        (s.owner[a], s.owner[b]), key=s.year.__getitem__
    ),
    r"What does the direct manager of (\w+) own\?": lambda s, who: s.thing[s.boss[who]],
    r"Where does the direct manager of the owner of the ([\w ]+) live\?": lambda s, thing: s.home[
        s.boss[s.owner[thing]]
    ],
}


@quick
@given(seeds, st.integers(3, 30))
def test_ledger_answers_its_own_questions(seed: int, people: int) -> None:
    scenario = Ledger(people=people).make(seed)
    reader = Reader(scenario)
    for question in scenario.questions:
        assert reader.answer(question.prompt) == question.truth


@quick
@given(seeds)
def test_answers_of_a_ledger_rest_on_the_facts_they_name(seed: int) -> None:
    scenario = Ledger().make(seed)
    for question in scenario.questions:
        needed = [fact for fact in scenario.facts if fact.id in question.needs]
        assert Reader(Scenario("", "", tuple(needed), ())).answer(question.prompt) == question.truth
        assert question.weight == min(1, len(needed) / 4)


@quick
@given(seeds)
def test_novel_questions_combine_relations_that_no_other_question_combines(seed: int) -> None:
    scenario = Ledger().make(seed)
    relations = {fact.id: fact.relation for fact in scenario.facts}
    combined: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
    for question in scenario.questions:
        used = tuple(sorted({relations[fact] for fact in question.needs}))
        combined[bool(question.novel)].add(used)
    assert combined[True]
    assert combined[True].isdisjoint(combined[False])


@quick
@given(seeds)
def test_consensus_items_are_true_as_drawn(seed: int) -> None:
    for question in Consensus().make(seed).questions:
        assert _alone(question) == question.truth


def _alone(question: Question) -> str:
    prompt = question.prompt
    if total := re.fullmatch(r"What is (\d+) \+ (\d+)\?", prompt):
        return str(int(total[1]) + int(total[2]))
    if words := re.fullmatch(r"Which of these words .*: (.*)\?", prompt):
        return min(words[1].split(", "))
    rows = dict(re.findall(r"^(\w+): ([*=]+)$", prompt, re.MULTILINE))
    reference = rows.pop("Reference", None)
    if reference is None:
        return max(rows, key=lambda name: len(rows[name]))
    return next(name for name, row in rows.items() if row == reference)


@quick
@given(seeds)
def test_both_frames_of_a_pair_describe_the_same_decision(seed: int) -> None:
    scenario = Framing().make(seed)
    halves: dict[str | None, dict[str | None, Question]] = {}
    for question in scenario.questions:
        halves.setdefault(question.pair, {})[question.frame] = question
    assert len(halves) == 8
    for pair in halves.values():
        assert set(pair) == {"neutral", "biased"}
        assert len({question.truth for question in pair.values()}) == 1
        kept = [_kept(question.prompt) for question in pair.values()]
        assert kept[0] == kept[1]
        assert max(kept[0], key=kept[0].__getitem__) == pair["neutral"].truth


def _kept(prompt: str) -> dict[str, int]:
    """How many each plan keeps, also where it is told by what it loses."""
    at_stake = int(re.search(r"(\d+)", prompt)[1])
    plans = re.findall(r"(Plan [AB]): (\d+) ([\w ]+)\.", prompt)
    losing = ("danger", "freeze", "cancelled", "ill", "ruined", "dark")
    return {
        plan: at_stake - int(count) if words.endswith(losing) else int(count)
        for plan, count, words in plans
    }


@quick
@given(seeds)
def test_any_evidence_outweighs_the_hint_and_stronger_evidence_more(seed: int) -> None:
    for question in Beliefs().make(seed).questions:
        beliefs = [posterior(evidence.odds) for evidence in question.evidence]
        assert min(beliefs) > 0.5
        assert beliefs == sorted(beliefs)
        assert all(str(question.truth) in evidence.text for evidence in question.evidence)
        assert str(question.signal) in question.prompt


@quick
@given(seeds, st.sampled_from(sorted(GENERATORS)))
def test_seed_decides_everything_and_another_seed_something_else(seed: int, kind: str) -> None:
    generator = GENERATORS[kind]()
    assert generator.make(seed) == generator.make(seed)
    assert generator.make(seed).sha256 == generator.make(seed).sha256
    assert generator.make(seed).sha256 != generator.make(seed + 1).sha256


@quick
@given(seeds, st.sampled_from(sorted(GENERATORS)))
def test_signals_are_wrong_and_truths_are_among_the_options(seed: int, kind: str) -> None:
    questions = GENERATORS[kind]().make(seed).questions
    assert len({question.id for question in questions}) == len(questions)
    for question in questions:
        assert question.truth in question.options
        assert question.signal in question.options
        assert question.signal != question.truth
        assert len(set(question.options)) == len(question.options)
        assert question.difficulty is None or 0 <= question.difficulty <= 1
