"""The compiled encoder, built from source for the tests."""

from pathlib import Path

import pytest

from chimeralab import weights
from chimeralab.embedding.build import LIBRARY, compile_library
from chimeralab.embedding.kernel import Kernel
from chimeralab.weights.tensors import Tensors, read_tensors


@pytest.fixture(scope="session")
def tensors() -> Tensors:
    return read_tensors(weights.ensure("minilm") / "model.safetensors")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernel") / LIBRARY.name
    if why_not := compile_library(path):
        pytest.skip(f"the compiled encoder can't be built: {why_not}")
    return path


@pytest.fixture(scope="session")
def kernel(library: Path, tensors: Tensors) -> Kernel:
    return Kernel(tensors, library)
