"""`chimera audit`, `rubric` and `plan-ratings` as a user runs them."""

import csv
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from chimeralab.rating.rubric import BUILT_IN, lock_path

CONDITIONS = {
    "HOMO_A": (41, 2, 0, 2),
    "HOMO_B": (45, 0, 0, 0),
    "HOMO_C": (39, 0, 4, 2),
    "HETERO_ROT": (32, 5, 2, 6),
}
KEYS = (
    "n n_valid n_total agreement expected_agreement kappa kappa_ci kappa_ci_bootstrap pabak"
    " pabak_ci ac1 alpha prevalence_index bias_index kappa_max positive_agreement"
    " negative_agreement gate by_stratum"
).split()


def write_rows(path: Path, rows: Iterable[dict[str, object]]) -> Path:
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def study_rows() -> Iterable[dict[str, object]]:
    """The published study as two raters would hand it in."""
    for condition, counts in CONDITIONS.items():
        pairs = zip(((1, 1), (1, 0), (0, 1), (0, 0)), counts, strict=True)
        labels = [pair for pair, count in pairs for _ in range(count)]
        for n, pair in enumerate(labels):
            for rater, label in zip(("first", "second"), pair, strict=True):
                item = f"{condition}-{n}"
                yield {"item": item, "rater": rater, "label": label, "stratum": condition}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "ratings.csv", study_rows())


def rate(item: str, **labels: object) -> list[dict[str, object]]:
    return [{"item": item, "rater": rater, "label": label} for rater, label in labels.items()]


def test_table_gives_the_published_panel(chimera: Callable[..., Any]) -> None:
    ran = chimera("audit", "--table", 157, 7, 6, 10, "--json")
    assert ran.code == 0
    assert set(KEYS) <= ran.json.keys()
    assert round(ran.json["kappa"], 4) == 0.5663
    assert ran.json["kappa_ci"] == pytest.approx([0.3552, 0.7775], abs=5e-5)
    assert ran.json["kappa_ci_bootstrap"] == pytest.approx([0.322, 0.763], abs=5e-3)
    assert ran.json["pabak_ci"] == pytest.approx([0.7607, 0.9146], abs=5e-5)
    assert (ran.json["gate"]["declared"], ran.json["gate"]["passed"]) == (False, False)


def test_low_kappa_and_pabak_are_explained(chimera: Callable[..., Any]) -> None:
    text = " ".join(chimera("audit", "--table", 157, 7, 6, 10, "--full").out.split())
    assert "167 of 180 items (92.8 %)" in text
    assert "Kappa is low although agreement is high" in text
    assert "hides disagreement on the rare one" in text
    assert "60.6 %" in text


def test_file_gives_the_published_panel_for_each_condition(
    chimera: Callable[..., Any], study: Path
) -> None:
    result = chimera("audit", study, "--json").json
    assert round(result["kappa"], 4) == 0.5663
    kappas = {name: panel["kappa"] for name, panel in result["by_stratum"].items()}
    assert kappas["HOMO_A"] == pytest.approx(0.646, abs=5e-4)
    assert kappas["HOMO_C"] == pytest.approx(0.464, abs=5e-4)
    assert kappas["HETERO_ROT"] == pytest.approx(0.536, abs=5e-4)
    assert kappas["HOMO_B"] is None
    assert "same label" in result["by_stratum"]["HOMO_B"]["reasons"]["kappa"]
    assert len(result["disagreements"]) == 13


def test_json_lines_are_read_like_csv(
    chimera: Callable[..., Any], study: Path, tmp_path: Path
) -> None:
    lines = tmp_path / "ratings.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in study_rows()), encoding="utf-8")
    one, other = (chimera("audit", path, "--json").json for path in (study, lines))
    assert one == other


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--threshold", 0.8), 1),
        (("--threshold", 0.5), 1),
        (("--threshold", 0.5, "--rule", "point"), 0),
        (("--threshold", 0.5, "--rule", "lower_ci"), 1),
        (("--statistic", "pabak", "--rule", "point"), 0),
        (("--statistic", "pabak"), 1),
        (("--statistic", "ac1", "--threshold", 0.9, "--rule", "point"), 0),
        (("--statistic", "alpha", "--threshold", 0.3, "--rule", "lower_ci"), 0),
        (("--statistic", "agreement", "--threshold", 0.88, "--rule", "lower_ci"), 0),
        (("--statistic", "agreement", "--threshold", 0.89, "--rule", "lower_ci"), 1),
        (("--statistic", "ac1", "--rule", "lower_ci"), 0),
        (("--statistic", "ac1", "--threshold", 0.9, "--rule", "lower_ci"), 1),
        (("--threshold", 80), 2),
    ],
)
def test_exit_code_says_whether_the_gate_was_met(
    chimera: Callable[..., Any], options: tuple[object, ...], code: int
) -> None:
    assert chimera("audit", "--table", 157, 7, 6, 10, *options).code == code


def test_gate_on_an_undefined_kappa_is_not_met(chimera: Callable[..., Any]) -> None:
    ran = chimera("audit", "--table", 45, 0, 0, 0, "--threshold", 0.8, "--json")
    assert ran.code == 1
    assert ran.json["kappa"] is None
    assert "undefined" in ran.json["gate"]["reason"]


def test_missing_labels_are_counted_and_never_a_category(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [*rate("a", x=1, y=1), *rate("b", x=0, y=0), *rate("c", x=1, y=0)]
    rows += [*rate("d", x="", y=1), *rate("e", x=0)]
    result = chimera("audit", write_rows(tmp_path / "r.csv", rows), "--json").json
    assert (result["n_valid"], result["n_total"]) == (3, 5)
    assert result["missing"] == {"x": 1, "y": 1}
    assert result["agreement"] == pytest.approx(2 / 3)


def test_three_raters_get_alpha_and_pairs(chimera: Callable[..., Any], tmp_path: Path) -> None:
    rows = [*rate("a", x=1, y=1, z=0), *rate("b", x=0, y=0, z=0), *rate("c", x=1, y=0, z=1)]
    ran = chimera("audit", write_rows(tmp_path / "r.csv", rows), "--json", "--threshold", 0.5)
    assert ran.code == 1
    assert ran.json["kappa"] is None
    assert "see pairs" in ran.json["reasons"]["kappa"]
    assert ran.json["alpha"] is not None
    assert [(pair["first"], pair["second"]) for pair in ran.json["pairs"]] == [
        ("x", "y"), ("x", "z"), ("y", "z"),
    ]  # fmt: skip
    assert ran.json["gate"]["value"] == min(pair["kappa"] for pair in ran.json["pairs"])
    assert chimera("audit", tmp_path / "r.csv").code == 0


def test_pairs_of_several_raters_have_their_interval(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [*rate("a", x=1, y=1, z=0), *rate("b", x=0, y=0, z=0), *rate("c", x=1, y=0, z=1)]
    ran = chimera("audit", write_rows(tmp_path / "r.csv", rows), "--full")
    assert re.search(
        r"x and y: kappa 0\.\d+ \(95 % score interval [^)]+ to [^)]+\), agree", ran.out
    )
    sentences = [line for line in ran.out.splitlines() if line and not line.startswith(" ")]
    assert any(line.endswith("on the 3 items that every rater labelled.") for line in sentences)


def test_limits_of_a_gate_count_the_items_that_have_both_labels(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [*rate("a", x=1, y=1), *rate("b", x=0, y=0), *rate("c", x=1, y=""), *rate("d", x=0)]
    gate = chimera("audit", write_rows(tmp_path / "r.csv", rows), "--json").json["gate"]
    assert gate["items"] == 2
    assert "on 2 items even perfect agreement" in gate["limits"][0]


def test_no_interval_of_kappa_is_a_point(chimera: Callable[..., Any]) -> None:
    result = chimera("audit", "--table", 40, 0, 10, 0, "--json").json
    assert (result["kappa"], result["kappa_ci"], result["kappa_ci_bootstrap"]) == (0, None, None)
    assert "one rater never varies" in result["reasons"]["kappa_ci"]
    assert result["kappa_ci_score"][0] < 0 < result["kappa_ci_score"][1]


def test_record_names_the_figures_that_are_undefined(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    chimera("audit", "--table", 45, 0, 0, 0, "--record", tmp_path / "gate")
    record = (tmp_path / "gate" / "gate-record.md").read_text()
    assert "Undefined (–), negative_agreement: neither rater gave a 0." in record
    assert "Undefined (–), kappa, " in record


# AC1 and alpha of these labels, and Fleiss' kappa of the complete items, by irrCAC 0.4.4.
IRRCAC = {
    3: (0.48138, 0.51826, 0.63294),
    4: (0.57935, 0.57645, 0.59784),
    5: (0.54089, 0.51469, 0.45951),
}


@pytest.mark.parametrize("raters", IRRCAC)
def test_several_raters_with_gaps_get_every_coefficient_with_its_n(
    chimera: Callable[..., Any], tmp_path: Path, raters: int
) -> None:
    rng = np.random.default_rng(raters)
    labels = rng.integers(0, 2, (60, 1)) + np.zeros((60, raters))
    noise = rng.random(labels.shape) < 0.15
    labels[noise] = 1 - labels[noise]
    labels[rng.random(labels.shape) < 0.15] = np.nan
    names = "vwxyz"[:raters]
    rows: list[dict[str, object]] = [
        {"item": n, "rater": name, "label": "" if np.isnan(label) else int(label)}
        for n, row in enumerate(labels)
        for name, label in zip(names, row, strict=True)
    ]
    ran = chimera("audit", write_rows(tmp_path / "r.csv", rows), "--json")
    assert ran.code == 0
    given = (~np.isnan(labels)).sum(axis=1)
    complete = labels[given == raters].astype(int)
    assert ran.json["fleiss_n"] == len(complete) < ran.json["n_valid"] < 61
    assert ran.json["alpha_n"] == ran.json["ac1_n"] == int((given >= 2).sum())
    assert ran.json["fleiss"] == pytest.approx(fleiss_kappa(aggregate_raters(complete)[0]))
    alpha = krippendorff.alpha(reliability_data=labels.T, level_of_measurement="nominal")
    assert ran.json["alpha"] == pytest.approx(alpha)
    found = [ran.json[name] for name in ("ac1", "alpha", "fleiss")]
    assert found == pytest.approx(IRRCAC[raters], abs=5e-6)
    assert ran.json["ac1_ci"][0] < ran.json["ac1"] < ran.json["ac1_ci"][1]
    for pair in ran.json["pairs"]:
        both = labels[:, [names.index(pair["first"]), names.index(pair["second"])]]
        both = both[~np.isnan(both).any(axis=1)]
        assert pair["n_valid"] == len(both)
        assert pair["kappa"] == pytest.approx(cohen_kappa_score(*both.T))
    # The table that people read says which items Fleiss' kappa rests on.
    shown = chimera("audit", tmp_path / "r.csv", "--full").out
    assert re.search(rf"items that every rater labelled +{len(complete)}\b", shown)
    assert f"on the {len(complete)} items that every rater labelled" in " ".join(shown.split())


def test_clusters_of_like_items_widen_the_interval(
    chimera: Callable[..., Any], study: Path
) -> None:
    # The rows come sorted by outcome, so neighbours are alike.
    rows = [row | {"cluster": n // 10} for n, row in enumerate(study_rows())]
    alone = chimera("audit", study, "--json").json["kappa_ci"]
    clustered = chimera("audit", write_rows(study, rows), "--json").json
    assert clustered["clustered"]
    assert clustered["kappa_ci"][1] - clustered["kappa_ci"][0] > alone[1] - alone[0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*rate("a", x=1, y=2)], "label '2'; a label is 0, 1 or blank"),
        ([*rate("a", x=1, y="yes")], "label 'yes'"),
        ([*rate("a", x=1, y=0.5)], "label '0.5'"),
        ([*rate("a", x=1, y=""), *rate("b", x=0, y="")], "rater 'y' gave no label"),
        ([*rate("a", x=1, y=1), *rate("a", x=0)], "line 4: 'x' rates 'a' again, after line 2"),
        ([*rate("a", x=1), *rate("b", x=0)], "agreement needs at least two raters"),
        ([*rate("", x=1, y=1)], "line 2: the item is blank"),
        ([{"item": "a", "rater": "x"}], "there is no column 'label'"),
        ([r | {"stratum": s} for r, s in zip(rate("a", x=1, y=1), "pq", strict=True)],
         "item 'a' has stratum 'p' and 'q'"),
        ([r | {"weight": "heavy"} for r in rate("a", x=1, y=1)], "a weight is not a number"),
        ([r | {"weight": -1} for r in rate("a", x=1, y=1)], "all must be positive"),
    ],
)  # fmt: skip
def test_bad_ratings_are_rejected_with_their_place_and_nothing_is_written(
    chimera: Callable[..., Any], tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    path = write_rows(tmp_path / "r.csv", rows)
    ran = chimera("audit", path, "--record", tmp_path / "record")
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "there is no column 'item'"),
        ("item,rater,label\n", "has no ratings"),
        ('{"item": "a", "rater": "x", "label": 1}\n{"item"', "line 2: not valid JSON"),
        ('{"item": "a", "label": 1}', "there is no column 'rater'; needed: item, rater"),
        ("item,rater,label\na,x,1,9\n", "4 cells under 3 column names"),
    ],
)
def test_bad_rating_files_are_rejected(
    chimera: Callable[..., Any], tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "ratings"
    path.write_text(content, encoding="utf-8")
    ran = chimera("audit", path)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize(
    "arguments",
    [(), ("--table", 1, 2, 3), ("--table", -1, 2, 3, 4), ("--table", 0, 0, 0, 0), ("nowhere.csv",)],
)
def test_bad_audit_arguments_are_rejected(
    chimera: Callable[..., Any], arguments: tuple[object, ...]
) -> None:
    assert chimera("audit", *arguments).code == 2


def test_semicolons_and_a_byte_order_mark_are_read(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "r.csv"
    text = "item;rater;label\na;x;1\na;y;1\nb;x;0\nb;y;0\nc;x;1\nc;y;0\n"
    path.write_text(text, encoding="utf-8-sig")
    assert chimera("audit", path, "--json").json["n_valid"] == 3


def test_record_contains_verdict_figures_disagreements_and_consequence(
    chimera: Callable[..., Any], study: Path, tmp_path: Path
) -> None:
    rows = [row | {"reason": f"turns 3 to 5 | {row['rater']}"} for row in study_rows()]
    folder = tmp_path / "new" / "record"
    ran = chimera("audit", write_rows(study, rows), "--record", folder, "--rubric", "built-in")
    assert ran.code == 1
    record = json.loads((folder / "gate-record.json").read_text(encoding="utf-8"))
    assert record["verdict"] == "failed"
    assert record["consequence"]["name"] == "descriptive"
    assert record["rubric"]["version"] == "3.0"
    assert len(record["audit"]["disagreements"]) == 13
    page = (folder / "gate-record.md").read_text(encoding="utf-8")
    assert "Verdict: not reliable" in page
    assert "180 valid of 180" in page
    assert r"1 turns 3 to 5 \| first | 0 turns 3 to 5 \| second" in page
    assert "validated" not in page
    assert "HETERO" in page
    again = chimera("audit", study, "--record", folder)
    assert (again.code, "already exists" in again.err) == (2, True)


def test_record_with_a_changed_rubric_is_rejected(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    rubric = tmp_path / "own.toml"
    rubric.write_bytes(BUILT_IN.read_bytes() + b"\n")
    lock_path(rubric).write_bytes(lock_path(BUILT_IN).read_bytes())
    folder = tmp_path / "record"
    ran = chimera("audit", "--table", 9, 1, 1, 9, "--record", folder, "--rubric", rubric)
    assert (ran.code, "was changed after it was locked" in ran.err) == (2, True)
    assert not folder.exists()


def test_rubric_is_shown_as_text_and_as_json(chimera: Callable[..., Any]) -> None:
    page, values = chimera("rubric", "show"), chimera("rubric", "show", "--json").json
    assert page.code == 0
    assert values["sha256"] in page.out
    assert (values["state"], len(values["examples"])) == ("locked", 8)


def test_custom_rubric_is_locked_once(chimera: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    text = BUILT_IN.read_text(encoding="utf-8")
    path.write_text(text.replace('state = "locked"', 'state = "calibrated"'), encoding="utf-8")
    assert chimera("rubric", "lock", path).code == 0
    assert chimera("rubric", "show", path).code == 0
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert chimera("rubric", "show", path).code == 2


def test_plan_gives_the_published_numbers_of_items(chimera: Callable[..., Any]) -> None:
    asked = ("plan-ratings", "--kappa", 0.90, "--json", "--prevalence")
    assert chimera(*asked, 0.5).json["items"] == 118
    lopsided = chimera(*asked, 0.9083).json
    assert (lopsided["items"], lopsided["items_if_balanced"]) == (363, 118)
    assert lopsided["items_score"] > lopsided["items"]
    assert "363 items" in chimera("plan-ratings", "--kappa", 0.9, "--prevalence", 0.9083).out


@pytest.mark.parametrize(("kappa", "prevalence"), [(0.7, 0.5), (0.9, 1.5), (1.2, 0.5)])
def test_impossible_rating_plans_are_rejected(
    chimera: Callable[..., Any], kappa: float, prevalence: float
) -> None:
    assert chimera("plan-ratings", "--kappa", kappa, "--prevalence", prevalence).code == 2
