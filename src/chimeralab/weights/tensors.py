"""Memory-map a safetensors file: a JSON header, then the arrays."""

import json
import mmap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError

Tensors = Mapping[str, NDArray[np.float32]]


class MappedTensors(dict[str, NDArray[np.float32]]):
    """The arrays of a file; unused ones are never read from disk."""

    def __init__(self, arrays: Tensors, file: mmap.mmap) -> None:
        super().__init__(arrays)
        self._file = file

    def release_pages(self) -> None:
        """Drop the pages read so far from this process's memory; they are read again on use."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._file.madvise(mmap.MADV_DONTNEED)


def read_tensors(path: Path) -> MappedTensors:
    """Map the f32 arrays of a file by name, read-only."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        size = int.from_bytes(mapped[:8], "little")
        table = json.loads(mapped[8 : 8 + size])
        arrays = {
            name: np.frombuffer(
                mapped,
                dtype="<f4",
                count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4,
                offset=8 + size + entry["data_offsets"][0],
            ).reshape(entry["shape"])
            for name, entry in table.items()
            if entry.get("dtype") == "F32"
        }
        return MappedTensors(arrays, mapped)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a safetensors file ({error})") from error
