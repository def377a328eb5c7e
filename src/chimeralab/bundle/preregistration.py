"""The plan of a study as a preregistration, its answers in the order of the OSF form.

Only what the plan says is registered: where it is silent, so is the answer, and says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chimeralab.bundle.codebook import INDICES
from chimeralab.bundle.facts import design
from chimeralab.core.numbers import counted
from chimeralab.core.result_words import MARK
from chimeralab.core.text import markdown
from chimeralab.rating.plan import GateTable
from chimeralab.runner import Speaker
from chimeralab.selfplay.outcomes import Estimand, Outcomes, measure_name
from chimeralab.study import Plan, Study
from chimeralab.trial.measures import MEASURES, words_of

PREREGISTRATION = "preregistration.md"
SILENT = "*Not stated in the plan.*"
LOCKED = """\
The answers stand in the order of the OSF Preregistration form. They are those of the plan as it
was locked{when}, SHA-256 {sha256}.
`plan.lock` holds every detail. What the plan does not say was not registered, and is marked so.
"""
UNLOCKED = """\
**This is not a preregistration:** the plan was not locked before the runs, so everything is
exploratory. The answers stand in the order of the OSF Preregistration form.
"""


class FormAnswer(NamedTuple):
    """A question of the form, and the lines that answer it."""

    question: str
    lines: Sequence[str]


def preregistration(study: Study) -> str:
    """The form, filled in from the plan."""
    lock = study.lock
    about = UNLOCKED
    if lock is not None:
        when = f" at {lock.locked_at}" if lock.locked_at else ""
        about = LOCKED.format(when=when, sha256=lock.sha256)
    parts = [f"# Preregistration: {markdown(study.plan.study.name)}\n", about]
    for title, answers in _form(study).items():
        parts.append(f"## {title}\n")
        for question, lines in answers:
            parts.append(f"### {question}\n")
            parts.append("\n".join(lines) + "\n" if lines else f"{SILENT}\n")
    return "\n".join(parts)


def _form(study: Study) -> Mapping[str, Iterable[FormAnswer]]:
    plan = study.plan
    return {
        "Study information": _information(plan),
        "Design plan": _design(study),
        "Sampling plan": _sampling(study),
        "Variables": _trial_variables(plan) if plan.trial else _variables(plan),
        "Analysis plan": _trial_analysis(plan) if plan.trial else _analysis(plan),
        "Other": [FormAnswer("Other", [*_gate(plan.extras["gate"]), *_other(plan)])],
    }


def _information(plan: Plan) -> Iterator[FormAnswer]:
    yield FormAnswer("Title", [markdown(plan.study.name)])
    yield FormAnswer("Authors", [])
    yield FormAnswer("Description", [markdown(plan.study.question)] if plan.study.question else [])
    compared = [] if plan.trial else [f"- {each}" for each in _questions(plan, "primary")]
    if compared:
        compared = [
            "The plan states no direction; tests are two-sided. Primary comparisons:",
            "",
            *compared,
        ]
    yield FormAnswer("Hypotheses", compared)


def _questions(plan: Plan, role: str) -> Iterator[str]:
    outcomes: Outcomes = plan.extras["outcomes"]
    weights = {each.name: each.by_condition for each in outcomes.contrasts}
    for each in outcomes.estimands:
        if each.role == role:
            sides = weights.get(each.contrast)
            said = "every pair of conditions"
            if sides:
                terms = ", ".join(f"{name} {weight:+.3g}" for name, weight in sides.items())
                said = f"{each.contrast} ({terms})"
            among = f", among prompts of {', '.join(each.population)}" if each.population else ""
            yield markdown(f"{each.summary()}: {said}{among}")


def _design(study: Study) -> Iterator[FormAnswer]:
    plan, run = study.plan, study.plan.run
    yield FormAnswer(
        "Study type", ["Experiment: what is varied is assigned to language models by the plan."]
    )
    blind = "The models are not told which condition they are in."
    if plan.trial:
        blind += " Answers are scored by the rules of the scenarios."
    elif plan.extras["gate"].declared:
        blind += " People rate from packets that hide conditions and models, in shuffled order."
    yield FormAnswer("Blinding", [blind])
    yield FormAnswer("Is there any additional blinding in this study?", [])
    units, turns = ("scenarios", "question") if plan.trial else ("prompts", "turn")
    said = f"Within {units}: {design(study)}, {counted(plan.conversation.turns, turns)} each."
    yield FormAnswer("Study design", [f"{said} What differs is under *Manipulated variables*."])
    order = (
        "in random order, conditions interleaved" if run.interleave else "condition after condition"
    )
    yield FormAnswer("Randomization", [f"Conversations are run {order}, by the seed {run.seed}."])


def _conditions(plan: Plan) -> Iterator[str]:
    for name, condition in plan.conditions.items():
        if plan.trial:
            arm = plan.trial.arms[name]
            stress = " and ".join(
                f"{each} ({_settings(part)})" for each, part in arm.stressors.items()
            )
            said = f"{'sham of ' if arm.sham else ''}{stress or 'no stressor'}"
            said += f", against it {arm.against}" if arm.against else ""
            said = f"{plan.trial.subjects[name]}, {said}"
        else:
            said = "; ".join(map(_speaker, condition.speakers))
            if condition.countermeasure:
                part = condition.countermeasure
                said += f"; on collapse {part.use} ({_settings(part.settings)})"
        yield f"- **{markdown(name)}**: {markdown(said)}"


def _speaker(speaker: Speaker) -> str:
    how = speaker.sampling
    prompted = ", with a system prompt" if speaker.system else ""
    drawn = f"temperature {how.temperature:g}, top_p {how.top_p:g}, {how.max_tokens} tokens"
    return f"{speaker.name} is {speaker.model} ({drawn}{prompted})"


def _settings(part: Any) -> str:
    given = part.as_dict() if hasattr(part, "as_dict") else {}
    return ", ".join(f"{key} {value}" for key, value in given.items()) or "as it is"


def _sampling(study: Study) -> Iterator[FormAnswer]:
    plan, rules = study.plan, study.plan.conversation
    before = [
        "Registration prior to creation of data: a plan can't be locked once a turn is stored."
    ]
    yield FormAnswer("Existing data", before if study.lock else [])
    yield FormAnswer("Explanation of existing data", ["Not applicable."] if study.lock else [])
    models = [
        f"- {markdown(name)}: {markdown(each.part.use)}"
        + (f", declared revision {markdown(each.revision)}" if each.revision else "")
        for name, each in plan.models.items()
    ]
    kinds = ("empty", "refusal", "overflow", "failure")
    lapses = [f"on {kind}, {getattr(rules, f'on_{kind}')}" for kind in kinds]
    yield FormAnswer(
        "Data collection procedures",
        [
            f"Replies are asked of {counted(len(plan.models), 'model')}, turn by turn:",
            "",
            *models,
            "",
            f"When a reply is no answer, the rules are: {'; '.join(lapses)}.",
        ],
    )
    yield FormAnswer(
        "Sample size", [f"{counted(len(study.talks), 'conversation')}: {design(study)}."]
    )
    yield FormAnswer("Sample size rationale", [])
    limits = {"cost": plan.run.max_cost, "hours": plan.run.max_hours}
    known = [f"at most {value:g} ({name})" for name, value in limits.items() if value is not None]
    ends = "A conversation ends early when the detector fires." if rules.stop_early else ""
    yield FormAnswer(
        "Stopping rule",
        [" ".join(filter(None, ["All planned conversations are run.", ends, *known]))],
    )


def _variables(plan: Plan) -> Iterator[FormAnswer]:
    yield FormAnswer("Manipulated variables", list(_conditions(plan)))
    detector = plan.detector.settings
    yield FormAnswer(
        "Measured variables",
        [
            f"Which turns the detector {markdown(detector.name)} marks as collapsed: "
            f"{markdown(detector.rule)}."
        ],
    )
    outcomes: Outcomes = plan.extras["outcomes"]
    used = dict.fromkeys(each.measure for each in outcomes.estimands)
    yield FormAnswer("Indices", [f"- {name}: {measure_name(name, MARK)}" for name in used])


def _analysis(plan: Plan) -> Iterator[FormAnswer]:
    outcomes: Outcomes = plan.extras["outcomes"]
    level = f"{100 * outcomes.level:g} %"
    yield FormAnswer(
        "Statistical models",
        [
            "Conditions are compared within prompts, and repeats of a prompt are one cluster. "
            f"Intervals are {level} from the clustered standard error, beside a bootstrap of "
            f"{outcomes.resamples:,} resamples over prompts; p-values are those of t over prompts, "
            f"beside {outcomes.permutations:,} permutations within prompts. Seed {outcomes.seed}."
        ],
    )
    yield FormAnswer("Transformations", ["None."])
    family = "all comparisons of one role" if outcomes.family == "role" else "those of one estimand"
    yield FormAnswer(
        "Inference criteria",
        [f"Two-sided p below 0.05 after Holm's correction over {family}, primary ones apart."],
    )
    yield FormAnswer("Data exclusion", list(dict.fromkeys(map(_excluded, outcomes.estimands))))
    yield FormAnswer(
        "Missing data",
        [
            "Nothing is imputed. Conversations that are not finished, or too short for a verdict, "
            "are counted and left out."
        ],
    )
    yield FormAnswer(
        "Exploratory analysis", [f"- {each}" for each in _questions(plan, "exploratory")]
    )


def _excluded(estimand: Estimand) -> str:
    cut = "left out" if estimand.failed_turns == "leave_out" else "kept as far as they went"
    empty = (
        "left out"
        if estimand.empty_turns == "leave_out"
        else "judged by the detector's own setting"
    )
    return f"- Conversations cut short are {cut}; those with empty turns are {empty}."


def _trial_variables(plan: Plan) -> Iterator[FormAnswer]:
    assert plan.trial is not None
    yield FormAnswer("Manipulated variables", list(_conditions(plan)))
    names = [*MEASURES, *plan.trial.own_measures]
    yield FormAnswer(
        "Measured variables", [f"- {name}: {markdown(words_of(name).says)}" for name in names]
    )
    weights = plan.trial.weights.as_dict()
    indices = {name: words for name, words in INDICES.items() if "." not in name}
    yield FormAnswer(
        "Indices",
        [
            f"- {words}, its parts weighted {', '.join(f'{part:g}' for part in weights[name])}"
            for name, words in indices.items()
        ],
    )


def _trial_analysis(plan: Plan) -> Iterator[FormAnswer]:
    yield FormAnswer(
        "Statistical models",
        [
            "Arms are compared within scenarios, each of which counts equally. Intervals resample "
            "scenarios; p-values are those of a t test over scenarios."
        ],
    )
    yield FormAnswer("Transformations", ["None."])
    yield FormAnswer(
        "Inference criteria",
        [
            "Two-sided p below 0.05 after Holm's correction over all primary effects of all "
            "subjects: those on what the stressors of an arm are aimed at."
        ],
    )
    yield FormAnswer(
        "Data exclusion",
        [
            "Sessions that are not whole are left out; of a subject whose control fails its "
            "checks, no effect is estimated."
        ],
    )
    yield FormAnswer(
        "Missing data", ["Nothing is imputed. Replies that can't be read are counted."]
    )
    yield FormAnswer(
        "Exploratory analysis",
        ["Effects on anything else, corrected together in a family of their own."],
    )


def _gate(gate: GateTable) -> Iterator[str]:
    if not gate.declared:
        yield "- No reliability gate is declared: results say what the detector marked."
        return
    items = "every finished conversation"
    if gate.sample:
        drawn = "" if gate.seed is None else f" and seed {gate.seed}"
        items = f"{gate.sample} conversations, drawn by {gate.by}{drawn}"
    yield (
        f"- Reliability gate: {markdown(' and '.join(gate.raters))} rate {items}, and must reach "
        f"{gate.statistic} {gate.threshold:g} by the rule {markdown(gate.rule)}, in "
        f"{counted(gate.attempts, 'attempt')}."
    )
    if gate.validity:
        yield f"- The detector counts as validated with {gate.validity} against each rater."


def _other(plan: Plan) -> Iterator[str]:
    rubric = plan.extras["rubric"]
    yield f"- Rubric: version {rubric.version}, SHA-256 {rubric.sha256}."
    for use in plan.code:
        yield f"- Code from outside the package: {markdown(use)}; its hash is in the lock."
