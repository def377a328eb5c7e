"""The documents of a bundle, rendered from templates."""

import json
import re
import tomllib
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined

from chimeralab.bundle.manifest import hashes_of
from chimeralab.core.files import read_text
from chimeralab.core.numbers import plural
from chimeralab.core.schema import json_text
from chimeralab.core.tables import Columns
from chimeralab.core.text import escape_markdown
from chimeralab.embedding.encoder import MODEL
from chimeralab.report.files import models_table, software_table
from chimeralab.study import Study, flow
from chimeralab.study.database import MANIFEST
from chimeralab.study.export import TABLES, find_sealed_items
from chimeralab.study.lock import resolve
from chimeralab.version import __version__

BLANK = "TO FILL IN"
CITATION, CRATE = "CITATION.cff", "ro-crate-metadata.json"
_KEY = re.compile(r"^(?P<dash>  - )?(?P<indent> *)(?P<key>[a-z-]+): *(?P<value>[^#]*?) *(#.*)?$")
PROMPTS: Columns = {"id": str, "bucket": str, "text": str}
_DAYS = """
    SELECT {what}(day) FROM (
        SELECT started AS day FROM runs UNION ALL SELECT ended FROM runs
        UNION ALL SELECT ended FROM trajectories UNION ALL SELECT at FROM ratings
    ) WHERE day IS NOT NULL
"""


def preregistration(study: Study) -> str:
    """The plan in the order of the OSF Preregistration form; open answers are marked."""
    return _render(study, "kind/preregistration.md", talks=len(study.talks))


def datasheet(study: Study) -> str:
    """A datasheet with the answers that follow from the study."""
    with study.archive() as archive:
        failed = archive.value("SELECT count(*) FROM attempts WHERE outcome != 'answered'")
        arms = flow(archive)
    return _render(
        study, "kind/datasheet.md", arms=arms, failed=failed, models=models_table(study).raw
    )


def citation(study: Study) -> str:
    """How to cite the bundle (Citation File Format)."""
    return _render(study, "bundle/CITATION.cff")


def codebook(study: Study) -> str:
    """Every table of the study with its columns, and the measures of its kind."""
    kind = study.plan.kind
    own = {name: columns for name, (columns, _) in kind.export_tables().items()}
    tables = {"outcomes": kind.outcome_columns(), **TABLES, **own, "prompts": PROMPTS}
    return _render(study, "bundle/codebook.md", tables=tables, meaning=meaning)


def readme(study: Study) -> str:
    """A list of the files; figures and tables of the report are listed as folders."""
    written = [p.relative_to(study.path).as_posix() for p in study.path.rglob("*") if p.is_file()]
    folders = ("report/figures/", "report/tables/")
    later = ("README.md", CRATE, MANIFEST)
    names = {next((f for f in folders if name.startswith(f)), name) for name in written}
    order = {name: place for place, name in enumerate(_load_toml("files.toml"))}
    listed = sorted({*names, *later}, key=lambda name: (order.get(name, len(order) / 2), name))
    return _render(
        study, "bundle/README.md", names=listed, describe=describe, sealed=find_sealed_items(study)
    )


def versions(study: Study) -> str:
    """Versions of software, encoder and models as JSON; a hash is null for models on a server."""
    # Without a lock, the plan is resolved now.
    known = study.lock.resolved if study.lock else resolve(study.plan)
    found: dict[str, Any] = {
        "bundle_made_with": __version__,
        "root_hash": study.root,
        "lock": study.lock.sha256 if study.lock else None,
        "locked_at": study.lock.locked_at if study.lock else None,
        "software": {row["what"]: row["version"] for row in software_table(study).raw},
        "encoder": {
            "name": MODEL,
            "sha256": known["encoder"],
            "used": bool(study.plan.detector.settings.needs.lags),
        },
        "models": [
            {**row, "weights_sha256": known["weights"].get(row["model"])}
            for row in models_table(study).raw
        ],
        "outside_code_sha256": known["outside_code"],
    }
    return json_text(found, indent=1) + "\n"


def crate(study: Study) -> str:
    """The content of a bundle as RO-Crate metadata; the manifest is written later."""
    folder, types = study.path, _load_toml("media_types.toml")
    credited, licence, doi = read_credits(read_text(folder / CITATION))
    authors = [
        {
            "id": each.get("orcid", f"#author-{place}"),
            "name": each.get("name")
            or " ".join(filter(None, (each.get("given-names"), each.get("family-names")))),
            "affiliation": each.get("affiliation"),
        }
        for place, each in enumerate(credited, start=1)
    ]
    entries = [
        {
            "id": quote(name),
            "name": name,
            "type": types.get(Path(name).suffix, "application/octet-stream"),
            "size": (folder / name).stat().st_size,
        }
        for name in hashes_of(folder)
        if name != CRATE
    ]
    text = _render(
        study,
        "bundle/crate.json",
        files=entries,
        describe=describe,
        authors=authors,
        licence=licence,
        licence_url=f"https://spdx.org/licenses/{licence}",
        doi=doi,
    )
    return json.dumps(json.loads(text), indent=1) + "\n"


def read_credits(text: str) -> tuple[list[dict[str, str]], str | None, str | None]:
    """Read authors, licence and DOI from a citation file; open fields are left out.

    >>> read_credits("authors:\\n  - family-names: Doe\\n    given-names: Ann\\nlicense: CC0-1.0")
    ([{'family-names': 'Doe', 'given-names': 'Ann'}], 'CC0-1.0', None)
    """
    block, authors, top = "", list[dict[str, str]](), dict[str, str]()
    for line in text.splitlines():
        found = _KEY.match(line)
        if not found:
            continue
        key, value = found["key"], found["value"].strip("\"'")
        if not found["dash"] and not found["indent"]:
            block, top[key] = key, value
        elif block == "authors":
            if found["dash"]:
                authors.append({})
            if authors and value and BLANK not in value:
                authors[-1][key] = value
    return list(filter(None, authors)), top.get("license"), top.get("doi")


def meaning(table: str, column: str) -> str:
    """The meaning of a column."""
    known = _load_toml("columns.toml")
    found: str = known["in"].get(table, {}).get(column) or known[column]
    return found


def describe(name: str) -> str:
    """Describe a file of a bundle by the longest known prefix of its path."""
    known = [start for start in _load_toml("files.toml") if name.startswith(start)]
    if not known:
        return "a file that the plan refers to"
    found: str = _load_toml("files.toml")[max(known, key=len)]
    return found


def day(study: Study, which: str) -> str:
    """The first (`min`) or last (`max`) day of the records, so that dates are reproducible."""
    with study.archive() as archive:
        return str(archive.value(_DAYS.format(what=which)))[:10]


def _render(study: Study, template: str, **facts: Any) -> str:
    plan = study.plan
    loader = PrefixLoader(
        {name: PackageLoader(package) for name, package in _PLACES.items()}
        | {"kind": PackageLoader(plan.kind.templates)}
    )
    page = Environment(  # noqa: S701 - Markdown, escaped by a filter
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters |= {"markdown": escape_markdown, "plural": plural, "json": _json}
    text = page.get_template(template).render(
        plan=plan,
        units=plan.kind.units,
        design=plan.kind.describe(plan),
        lock=study.lock,
        gate=plan.extras["gate"],
        first_day=partial(day, study, "min"),
        last_day=partial(day, study, "max"),
        root=study.root,
        version=__version__,
        BLANK=BLANK,
        **plan.kind.facts(study),
        **facts,
    )
    return text.rstrip("\n") + "\n"


_PLACES = {"bundle": "chimeralab.bundle"}


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@cache
def _load_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files("chimeralab.bundle") / name).read_text(encoding="utf-8"))
