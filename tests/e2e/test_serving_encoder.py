"""`chimera models` and `chimera detect` say what computes the vectors, and why."""

from pathlib import Path

import pytest

from chimeralab.embedding.encoder import MiniLMEncoder, default_encoder


def test_models_command_names_the_network_in_use(chimera) -> None:
    served = MiniLMEncoder()
    assert chimera("models", "--json").json["encoder"] == {
        "precision": served.precision,
        "served_by": served.served_by,
    }
    said = f"vectors in {served.precision}, computed by {served.served_by}"
    assert said in chimera("models").out


def test_missing_library_is_noted_and_verdicts_stay_the_same(
    chimera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = chimera("detect", "examples", "--json")
    monkeypatch.setattr("chimeralab.embedding.kernel.LIBRARY", tmp_path / "gone.so")
    default_encoder.cache_clear()
    after = chimera("detect", "examples", "--json")
    default_encoder.cache_clear()
    assert "vectors in f32 (numpy, because this install has no compiled encoder)" in after.err
    for then, now in zip(before.rows[:-1], after.rows[:-1], strict=True):
        assert (then["id"], then["collapsed"]) == (now["id"], now["collapsed"])
        assert now["encoder"]["precision"] == "f32"
