"""What a GGUF file says about itself: the metadata in front of the weights."""

import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from chimeralab.core.errors import WeightsError

_STRING, _ARRAY = 8, 9
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_CONTROL = 3  # the token type of markers such as <|im_end|>


class Gguf(NamedTuple):
    """The facts about a model that its caller has to respect."""

    context_tokens: int
    control_tokens: tuple[str, ...]


def read_gguf(path: Path) -> Gguf:
    """How much the model can read at once, and the markers that no message may contain."""
    try:
        with path.open("rb") as file:
            about = _metadata(file)
        length = about[f"{about['general.architecture']}.context_length"]
        tokens = zip(
            about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"], strict=True
        )
        return Gguf(length, tuple(token for token, kind in tokens if kind == _CONTROL))
    except (OSError, KeyError, ValueError, OverflowError, struct.error) as error:
        raise WeightsError(
            f"{path} can't be read as a GGUF language model ({error}); "
            "remove it, and it is fetched anew, or name another file"
        ) from error


def _metadata(file: BinaryIO) -> dict[str, Any]:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not start with GGUF")
    _version, _tensors, count = struct.unpack("<IQQ", file.read(20))
    return {_string(file): _value(file, _number(file, "I")) for _ in range(count)}


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        kind, length = _number(file, "I"), _number(file, "Q")
        return [_value(file, kind) for _ in range(length)]
    return _number(file, _NUMBERS[kind])


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "Q")).decode("utf-8", "replace")


def _number(file: BinaryIO, code: str) -> Any:
    (number,) = struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))
    return number
