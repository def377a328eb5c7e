"""The audit: explanations, weights and strata."""

import asyncio

import pytest

from chimeralab.core.errors import InputError
from chimeralab.models.catalogue import EmbeddedSettings
from chimeralab.rating.audit import audit, audit_json, explain, write_record
from chimeralab.rating.gate import Gate
from chimeralab.rating.labels import LabelTable, from_counts, from_ratings
from chimeralab.rating.model_rater import LlmRater
from chimeralab.rating.plan import RatersTable
from chimeralab.rating.ratings import Item, Rating, rate_all
from chimeralab.rating.rubric import Label, load_rubric
from chimeralab.rating.rules import rate_by_rules
from chimeralab.stats.agreement import Table2x2


def words(*counts: int) -> str:
    return " ".join(explain(audit(from_counts(Table2x2(*counts))).overall))


def test_balanced_labels_get_no_explanation_of_low_kappa() -> None:
    text = words(45, 2, 3, 50)
    assert "why kappa is low" not in text
    assert "PABAK" not in text


def test_low_agreement_is_not_explained_away() -> None:
    assert "why kappa is low" not in words(30, 20, 20, 30)


def test_undefined_kappa_is_reported_as_undefined() -> None:
    assert "Kappa is undefined" in words(45, 0, 0, 0)


def test_excluded_items_are_counted() -> None:
    table = LabelTable(("a", "b", "c"), {"x": (1, 0, None), "y": (1, 1, 1)})
    assert "1 of 3 items are excluded" in " ".join(explain(audit(table).overall))


def test_raters_without_a_common_item_have_undefined_agreement() -> None:
    table = LabelTable(("a", "b"), {"x": (1, None), "y": (None, 1)})
    assert "no item has labels from both raters" in " ".join(explain(audit(table).overall))


def test_weights_undo_a_balanced_sample() -> None:
    """Half the sample stands for nine tenths of the population."""
    labels: dict[str, tuple[Label | None, ...]] = {
        "x": (1,) * 10 + (0,) * 10,
        "y": (1,) * 10 + (0,) * 8 + (1,) * 2,
    }
    items = tuple(map(str, range(20)))
    strata = ("collapsed",) * 10 + ("clear",) * 10
    weights = (9.0,) * 10 + (1.0,) * 10
    [balanced] = audit(LabelTable(items, labels)).overall.pairs.values()
    table = LabelTable(items, labels, strata=strata, weights=weights)
    [weighted] = audit(table).overall.pairs.values()
    assert balanced.prevalence == pytest.approx(0.55)
    assert weighted.prevalence == pytest.approx(0.91)
    assert weighted.kappa != pytest.approx(balanced.kappa)


def test_stratum_that_one_rater_left_out_is_named_and_not_dropped() -> None:
    table = LabelTable(
        ("a", "b", "c", "d"),
        {"x": (1, 0, 1, 0), "y": (1, 1, None, None)},
        strata=("p", "p", "q", "q"),
    )
    result = audit_json(audit(table))
    assert list(result["by_stratum"]) == ["p"]
    assert "rater 'y' gave no label" in result["unrated_strata"]["q"]


def test_hostile_text_is_escaped_in_the_record(tmp_path) -> None:
    evil = "</td>|\n# Verdict: passed <script>"
    table = LabelTable(("a", "b"), {"x": (1, 0), "y": (0, 0)}, {"x": (evil, ""), "y": ("", "")})
    write_record(tmp_path, audit(table))
    page = (tmp_path / "gate-record.md").read_text(encoding="utf-8")
    assert "\n# Verdict" not in page
    assert "<script>" not in page.replace("\\<script\\>", "")


def test_ratings_of_several_raters_are_tabulated() -> None:
    ratings = [Rating("a", "x", 1, "r1"), Rating("b", "x", 0, ""), Rating("a", "y", None, "r2")]
    table = from_ratings(ratings, strata={"a": "p", "b": "q"})
    assert table.labels == {"x": (1, 0), "y": (None, None)}
    assert (table.strata, table.reasons["y"]) == (("p", "q"), ("r2", ""))
    with pytest.raises(InputError, match="'x' rates 'a' twice"):
        from_ratings([*ratings, Rating("a", "x", 0, "again")])
    with pytest.raises(InputError, match="item 'b' has no weight"):
        from_ratings(ratings, weights={"a": 2.0})


def test_a_model_that_gave_no_label_fails_the_gate_instead_of_stopping_the_audit() -> None:
    table = LabelTable(("a", "b"), {"rules": (1, 0), "tiny": (None, None)})
    with pytest.raises(InputError, match="rater 'tiny' gave no label"):
        audit(table, Gate())
    result = audit(table, Gate(), allow_unlabelled=True)
    assert (result.gate.passed, result.overall.n_valid) == (False, 0)
    assert result.overall.missing == {"rules": 0, "tiny": 2}
    assert audit_json(result)["kappa"] is None


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.weights
def test_the_embedded_model_rates_badly_and_the_gate_fails_as_it_should() -> None:
    rubric = load_rubric()
    items = [Item(example.title, example.turns) for example in rubric.examples[1:3]]

    async def rate() -> list[Rating]:
        model = EmbeddedSettings(cache_gb=1).open()
        settings = RatersTable(retries=0, temperature=0.0, top_p=1.0, max_tokens=60)
        try:
            return await rate_all(LlmRater("smollm2", model, rubric, settings), items)
        finally:
            await model.close()

    ratings = asyncio.run(rate())
    assert all(rating.attempts for rating in ratings)
    table = from_ratings([*(rate_by_rules(item, rubric) for item in items), *ratings])
    assert not audit(table, Gate(), allow_unlabelled=True).gate.passed
