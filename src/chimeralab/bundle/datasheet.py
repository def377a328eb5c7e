"""A datasheet for a bundle, after Gebru et al. (2021): filled in from the study, with blanks.

A blank is marked, so that an author finds it and a reader sees that nobody has filled it in.
"""

from collections.abc import Iterator

from chimeralab.bundle.citation import BLANK
from chimeralab.bundle.facts import design, first_day, last_day
from chimeralab.core.numbers import counted
from chimeralab.core.text import markdown
from chimeralab.rating.auditing import reliability
from chimeralab.report.frame import models
from chimeralab.study import Study, flow

DATASHEET = "datasheet.md"


def datasheet(study: Study) -> str:
    """The questions of a datasheet with what the study knows of their answers."""
    title = f"# Datasheet: {markdown(study.plan.study.name)}"
    how = (
        f"What is marked **{BLANK}** only the author knows. Complete it here and export again into "
        "the same folder: your words are kept and sealed."
    )
    sections = {
        "Motivation": _motivation(study),
        "Composition": _composition(study),
        "Collection": _collection(study),
        "Judging and labelling": _labelling(study),
        "Uses": _uses(study),
        "Distribution and maintenance": _distribution(),
    }
    parts = [title, "", how, ""]
    for name, lines in sections.items():
        parts += [f"## {name}", "", *(f"- {line}" for line in lines), ""]
    return "\n".join(parts)


def _blank(question: str) -> str:
    return f"{question} **{BLANK}**"


def _motivation(study: Study) -> Iterator[str]:
    question = study.plan.study.question
    yield f"Question: {markdown(question)}" if question else _blank("For what were the data made?")
    yield _blank("Who made them, and on whose behalf?")
    yield _blank("Who paid for it?")


def _composition(study: Study) -> Iterator[str]:
    kind = (
        "self-play of language models" if study.plan.trial is None else "trials of language models"
    )
    with study.archive() as archive:
        arms = flow(archive)
        failed = archive.value("SELECT count(*) FROM attempts WHERE outcome != 'answered'")
    planned, completed = sum(arm.planned for arm in arms), sum(arm.completed for arm in arms)
    yield f"What it holds: {kind}, {design(study)}; all texts were written by the models below."
    yield (
        f"Size: {planned:,} conversations planned, {completed:,} completed, "
        f"{sum(arm.turns for arm in arms):,} turns."
    )
    for arm in arms:
        ends = ", ".join(f"{name} {count}" for name, count in arm.outcomes.items()) or "none ended"
        still = f", {arm.open} open" if arm.open else ""
        yield f"{markdown(arm.condition)}: {arm.planned} planned; {ends}{still}."
    unanswered = counted(failed, "request")
    yield f"Missing: {unanswered} without an answer that was taken; see `tables/attempts.csv`."
    yield _blank("Do prompts or texts hold personal, confidential or offensive content?")


def _collection(study: Study) -> Iterator[str]:
    yield f"When: {first_day(study)} to {last_day(study)}."
    for row in models(study).raw:
        answered = f", answered as {row['answered_as']}" if row["answered_as"] else ""
        declared = (
            f", declared revision {row['declared_revision']}" if row["declared_revision"] else ""
        )
        yield f"Model {markdown(row['model'])}: {markdown(str(row['is']) + declared + answered)}."
    lock = study.lock
    yield (
        f"Plan: locked before the first run, SHA-256 {lock.sha256}."
        if lock
        else "Plan: not locked; everything is exploratory."
    )
    yield _blank(
        "Where do the prompts come from?" if study.plan.trial is None else "Why these scenarios?"
    )
    if study.plan.extras["gate"].declared:
        yield _blank("If people rated: was there an ethics review, and how were they paid?")


def _labelling(study: Study) -> Iterator[str]:
    if study.plan.trial is not None:
        yield "Answers are scored by the rules of the scenarios; no person labelled them."
        return
    detector = study.plan.detector.settings
    yield f"Judged by the detector {markdown(detector.name)}: {markdown(detector.rule)}."
    with study.archive() as archive:
        rows = archive.rows(
            "SELECT w.name, count(*) AS n FROM ratings r JOIN raters w ON w.id = r.rater "
            "GROUP BY w.name"
        )
        raters = [f"{markdown(row['name'])} ({row['n']})" for row in rows]
    yield f"Labels by raters: {', '.join(raters) or 'none here'}."
    decided = reliability(study)
    if not study.plan.extras["gate"].declared:
        yield "Reliability gate: none declared; results say what the detector marked."
    elif decided is None:
        yield (
            "Reliability gate: not decided. Labels on which it may be decided are left out until "
            "then; the chain in `study.db` has their hashes."
        )
    else:
        yield f"Reliability gate: {decided.verdict}. {markdown(decided.scope.sentence)}"


def _uses(study: Study) -> Iterator[str]:
    yield _blank("What have the data been used for?")
    yield _blank("What should they not be used for?")
    if study.plan.trial is None:
        yield "Verdicts depend on the detector and its thresholds; the report shows how far."


def _distribution() -> Iterator[str]:
    yield _blank(
        "Under which licence? (Also in CITATION.cff; terms of the models' providers may apply.)"
    )
    yield _blank("Where are they deposited, and under which DOI?")
    yield _blank("Who answers questions, and how are errors reported?")
    yield (
        "Later versions: a later bundle has another root hash, and `chimera verify --expect` "
        "accepts the hash of this one as its past."
    )
