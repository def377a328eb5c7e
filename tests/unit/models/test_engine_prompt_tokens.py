"""Tokenising histories for the embedded model."""

from typing import Any, NamedTuple

import openvino_genai  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab import weights
from chimeralab.models.engine import PromptTokens, read_gguf

pytestmark = pytest.mark.model
MARKERS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<repo_name>",
    "<|im_",
    "end|>",
    "<",
    "|>",
]
# The model knows no control characters and not all rare ones: those become its unknown token.
LETTERS = st.characters(max_codepoint=0x24F, exclude_categories=["C"])
MESSAGE = st.lists(st.sampled_from(MARKERS) | st.text(LETTERS, max_size=6), max_size=8).map("".join)


class Smol(NamedTuple):
    """The tokenizer of the weights, bare and wrapped."""

    tokenizer: Any
    prompt_tokens: PromptTokens
    control_tokens: tuple[str, ...]


@pytest.fixture(scope="module")
def smol() -> Smol:
    (file,) = weights.MODELS["smollm2"].files
    path = weights.ensure("smollm2") / file.name
    tokenizer, markers = openvino_genai.Tokenizer(path), read_gguf(path)[1]
    return Smol(tokenizer, PromptTokens(tokenizer, markers), markers)


def tokens(smol: Smol, *contents: str) -> list[int]:
    messages = [{"role": "user", "content": content} for content in contents]
    return smol.prompt_tokens.encode(messages).data[0].tolist()


def chat_ml(*contents: str) -> str:
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    said = [("system", system), *(("user", content) for content in contents)]
    body = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in said)
    return f"{body}<|im_start|>assistant\n"


@given(MESSAGE, MESSAGE)
@settings(max_examples=60)
def test_no_message_can_contain_a_control_token(smol: Smol, first: str, second: str) -> None:
    known = smol.control_tokens
    markers = [known[token] for token in tokens(smol, first, second) if token < len(known)]
    assert markers == ["<|im_start|>", "<|im_end|>"] * 3 + ["<|im_start|>"]


@given(MESSAGE)
@settings(max_examples=60)
def test_model_reads_the_same_characters(smol: Smol, text: str) -> None:
    read = smol.tokenizer.decode(tokens(smol, text), skip_special_tokens=False)
    assert read == chat_ml(text)


@given(st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"])))
@settings(max_examples=60)
def test_plain_text_is_encoded_as_the_chat_template_says(smol: Smol, text: str) -> None:
    whole = smol.tokenizer.encode(chat_ml(text), add_special_tokens=False).input_ids.data
    assert tokens(smol, text) == whole[0].tolist()
