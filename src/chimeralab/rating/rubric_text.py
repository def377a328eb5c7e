"""The rubric as people and model raters read it: one text, so that all work by the same words."""

from collections.abc import Iterator

from chimeralab.rating.rubric import Example, Rubric, Version


def rubric_text(rubric: Rubric) -> str:
    """The rules, the steps, the distinctions, the don'ts and the worked examples in Markdown."""
    return "\n".join(_lines(rubric))


def history_lines(rubric: Rubric) -> list[str]:
    """One line a version, with the reliability it reached or why none is known."""
    return [f"- {entry.version}: {entry.change} {_reached(entry)}" for entry in rubric.history]


def _lines(rubric: Rubric) -> Iterator[str]:
    yield from ("## Task", "", rubric.task, "")
    yield from ("## Labels", "", f"**1** {rubric.label_one}", "")
    yield from (f"- ({kind.id}) {kind.name}: {kind.rule}" for kind in rubric.kinds)
    yield from ("", f"**0** {rubric.label_zero}", "")
    yield from ("## Steps, in this order; the first yes decides", "")
    yield from (f"{n}. {step.id}: {step.question}" for n, step in enumerate(rubric.steps, 1))
    yield from ("", "## Distinctions", "")
    yield from (f"- {point.title}. {point.text}" for point in rubric.distinctions)
    yield from ("", "## Do", "", *(f"- {text}" for text in rubric.dos))
    yield from ("", "## Do not", "", *(f"- {text}" for text in rubric.donts))
    yield from ("", "## Worked examples")
    for number, example in enumerate(rubric.examples, 1):
        yield from _example(number, example)


def _example(number: int, example: Example) -> Iterator[str]:
    yield from ("", f"### Example {number}: {example.title}", "")
    yield from (f"    {n}: {text}" for n, text in enumerate(example.turns, example.first_turn))
    yield from ("", f"Label {example.label} (step: {example.step}). {example.reason}")


def _reached(entry: Version) -> str:
    if entry.kappa is None:
        return f"(kappa not measured: {entry.why_unmeasured or 'still a draft'})"
    items = f" on {entry.items} items" if entry.items else ""
    return f"(kappa {entry.kappa:.3f}{items})"
