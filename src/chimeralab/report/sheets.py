"""Tables that a report writes as files alone: every run, every detector, every test."""

from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.report.selfplay.figures import bucket_means
from chimeralab.report.selfplay.material import Material
from chimeralab.report.selfplay.results import Results
from chimeralab.report.table import Table, flat, table


def plain_sheets(material: Material) -> Iterator[Table]:
    """The files behind the page."""
    if material.results is None:
        return
    results = material.results
    yield _sheet("runs", (run.as_dict() for run in results.runs.rows))
    yield _sheet("logrank", _log_ranks(results))
    yield _sheet("rank_stability", _stability(results))
    yield _sheet("outlook", _outlook(results))
    if results.runs.bucket is not None:
        yield _sheet("buckets", _buckets(results))
    if results.curve is not None:
        yield _sheet("specification_curve", _specifications(results))


def _sheet(name: str, rows: Iterator[Mapping[str, Any]]) -> Table:
    return table(name, (), (), list(rows))


def _log_ranks(results: Results) -> Iterator[dict[str, Any]]:
    analysis = results.analysis
    for test in (analysis.logrank, *analysis.logrank_pairs):
        yield {**flat(test.as_dict()), "conditions": ", ".join(test.conditions)}


def _stability(results: Results) -> Iterator[dict[str, Any]]:
    found = results.analysis.rank_stability
    for unit, held in (("prompt", found.by_seed), ("bucket", found.by_bucket)):
        if held is not None:
            yield {"unit": unit, "order": " > ".join(found.order), **held.as_dict()}


def _buckets(results: Results) -> Iterator[dict[str, Any]]:
    for bucket in bucket_means(results.analysis, results.runs):
        for name, mean in zip(results.analysis.conditions, bucket.means, strict=True):
            yield {"bucket": bucket.name, "condition": name, "mean": mean}


def _outlook(results: Results) -> Iterator[dict[str, Any]]:
    for outlook in results.analysis.outlook:
        for design in outlook.designs:
            pair = {"a": outlook.a, "b": outlook.b, "measure": outlook.measure}
            yield {**pair, **design.as_dict()}


def _specifications(results: Results) -> Iterator[dict[str, Any]]:
    assert results.curve is not None
    for each in results.curve.specifications:
        row = flat(each.as_dict())
        yield {"a": results.curve.a, "b": results.curve.b, **row.pop("settings"), **row}
