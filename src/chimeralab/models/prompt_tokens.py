"""A history in the tokens of the embedded model, where no message can pretend to be a marker."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov


class PromptTokens:
    """Writes messages with the chat template that the weights bring along."""

    def __init__(self, tokenizer: Any, control_tokens: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._markers = re.compile("|".join(map(re.escape, control_tokens)) or "(?!)")

    def encode(self, messages: Sequence[Mapping[str, str]]) -> Any:
        """The tokens of the whole prompt, up to where the model goes on.

        A message that spells a marker such as <|im_end|> would end itself and speak for others.
        Its text is therefore cut inside the marker, and the parts are encoded one by one: the
        model reads the same characters, as plain text.
        """
        knife = _unused(messages)
        harmless = [
            {"role": m["role"], "content": self._markers.sub(_cut_by(knife), m["content"])}
            for m in messages
        ]
        prompt = self._tokenizer.apply_chat_template(harmless, add_generation_prompt=True)
        parts = [self._ids(part) for part in prompt.split(knife)]
        return ov.Tensor(np.concatenate(parts, axis=1))

    def _ids(self, text: str) -> Any:
        return self._tokenizer.encode(text, add_special_tokens=False).input_ids.data


def _cut_by(knife: str) -> Any:
    return lambda marker: marker[0][0] + knife + marker[0][1:]


def _unused(messages: Sequence[Mapping[str, str]]) -> str:
    """A character that stands nowhere in the messages."""
    used = set().union(*(m["content"] for m in messages))
    return next(sign for sign in map(chr, range(0xE000, 0xF900)) if sign not in used)
