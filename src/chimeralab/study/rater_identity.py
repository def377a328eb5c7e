"""Who a rater of a study is: all that its labels hang on besides the texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chimeralab import version
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.gate_record import RaterIdentity
from chimeralab.rating.prompt import prompt_hash
from chimeralab.rating.rubric import Rubric
from chimeralab.rating.rules import NAME as RULES
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest, resolve
from chimeralab.study.rating_sections import HUMAN


@dataclass(frozen=True, slots=True)
class Identity(Record):
    """A rater by name and rubric; a model also by its settings, weights and prompt."""

    name: str
    rubric_sha256: str
    version: str | None = None
    model: Mapping[str, Any] | None = None
    weights: Mapping[str, str] | None = None
    settings: Mapping[str, Any] | None = None
    prompt_sha256: str | None = None

    @property
    def key(self) -> str:
        return digest(self.as_dict())

    @property
    def for_record(self) -> RaterIdentity:
        """The same in the words of a gate record."""
        use = None if self.model is None else self.model["use"]
        settings = ", ".join(f"{key} {value}" for key, value in (self.settings or {}).items())
        return RaterIdentity(self.name, use, self.version, settings)


def rubric_of(study: Study) -> Rubric:
    """The rubric of the plan; a file that changed since the plan was read is refused."""
    table = study.plan.extras["rubric"]
    rubric: Rubric = table.load(study.path)
    if rubric.sha256 != table.sha256:
        raise InputError(f"the rubric of {study.path} changed meanwhile; start again")
    return rubric


def identity_of(study: Study, name: str) -> Identity:
    """The rater that goes by a name in this study."""
    rubric = rubric_of(study)
    if name == RULES:
        return Identity(name, rubric.sha256, f"chimera-lab {version.__version__}")
    if name.startswith(HUMAN) and name != HUMAN:
        return Identity(name, rubric.sha256)
    subject = study.plan.models.get(name)
    if subject is None:
        raise InputError(
            f"unknown rater '{name}'; known: {', '.join((RULES, *study.plan.models))}, or "
            f"{HUMAN}NAME for a person"
        )
    return Identity(
        name,
        rubric.sha256,
        subject.revision,
        subject.part.as_dict(),
        resolve(study.plan)["weights"][name],
        study.plan.extras["raters"].as_dict(),
        prompt_hash(rubric),
    )
