"""The numbers of a trial for texts: each arm of each subject, and what the stressors do to it."""

from collections.abc import Iterator
from functools import partial

from chimeralab.core.numbers import number, p_value
from chimeralab.report.named_numbers import Entry, estimate_entries
from chimeralab.stats.effects import short
from chimeralab.trial.analysis import TrialAnalysis


def trial_entries(analysis: TrialAnalysis) -> Iterator[Entry]:
    """Each arm of each subject, and what the stressors do to it."""
    counts = {"sessions": analysis.sessions, "scenarios": analysis.scenarios}
    for name, count in counts.items():
        yield ("count", name), count, f"{count:,}", f"{name} in the analysis"
    for subject in analysis.subjects:
        who = subject.subject
        for arm in subject.arms:
            cell = short(arm.arm)
            for measure, found in arm.measures.items():
                what, estimate = f"{measure} of {who} under {cell}", (found.value, found.interval)
                show = partial(number, digits=3)
                yield from estimate_entries((measure, who, cell), what, estimate, show)
        for effect in subject.effects:
            name = effect.short_name
            what = f"effect on {effect.measure} of {who}, {name}"
            words = (effect.measure, who, name)
            show = partial(number, digits=3, sign=True)
            estimate = (effect.estimate, effect.interval)
            yield from estimate_entries(("effect", *words), what, estimate, show)
            corrected = p_value(effect.p_holm)
            yield ("holm p", *words), effect.p_holm, corrected, f"Holm-corrected p, {what}"
