"""The settings of models, as a plan reads them."""

from pathlib import Path
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.parts import PartLoader, read_part
from chimeralab.models.catalogue import MODELS, OpenAISettings
from chimeralab.models.seam import SEAM

SERVER = {"use": "openai", "model": "m", "base_url": "http://localhost:8000/v1"}


def read(table: dict[str, Any]) -> Any:
    return read_part(MODELS, table, "[models.m]", PartLoader(Path()), SEAM).settings


@pytest.mark.parametrize(
    "table",
    [{"use": "embedded"}, SERVER, {"use": "inspect", "model": "openai/gpt"}, {"use": "phantom"}],
)
def test_settings_with_every_default_written_out_read_as_the_same(table: dict[str, Any]) -> None:
    settings = read(table)
    assert read({"use": table["use"], **settings.as_dict()}) == settings


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"use": "embeded"}, "did you mean 'embedded'"),
        ({"use": "embedded", "determinstic": True}, "did you mean 'deterministic'"),
        ({"use": "embedded", "cache_gb": 0}, "cache_gb = 0"),
        ({"use": "openai", "model": "m"}, "needs a key 'base_url'"),
        ({**SERVER, "base_url": "localhost:8000"}, "base_url"),
        ({**SERVER, "timeout": -1}, "timeout = -1"),
        ({**SERVER, "max_retries": -1}, "max_retries = -1"),
        ({"use": "inspect", "model": "gpt-4o"}, "model"),
        ({"use": "phantom", "course": "lop"}, "course"),
        ({"use": "phantom", "fail_turns": [0]}, "fail_turns"),
    ],
)
def test_bad_settings_are_refused_by_name(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read(table)


@pytest.mark.parametrize("where", ["user:s3cret@host", "host?api-key=s3cret", "host/v1?x=s3cret"])
def test_secrets_in_the_address_are_refused_and_not_repeated(where: str) -> None:
    with pytest.raises(InputError, match="key_env") as caught:
        read({**SERVER, "base_url": f"https://{where}"})
    assert "s3cret" not in str(caught.value)


def test_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(InputError, match="NO_SUCH_KEY is not set"):
        OpenAISettings("m", "http://localhost/v1", "NO_SUCH_KEY").open()


def test_key_that_is_not_plain_text_is_rejected_without_being_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODD_KEY", "sk-s3cret–with-a-dash")
    with pytest.raises(InputError, match="ODD_KEY is not plain text") as caught:
        OpenAISettings("m", "http://localhost/v1", "ODD_KEY").open()
    assert "s3cret" not in str(caught.value)
