"""`ro-crate-metadata.json`: the content of a bundle as RO-Crate 1.1 (JSON-LD)."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from chimeralab.bundle.documents import BLANK, day, describe
from chimeralab.bundle.manifest import hashes_of
from chimeralab.core.files import read_text
from chimeralab.study import Study
from chimeralab.version import __version__

CITATION, CRATE = "CITATION.cff", "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/crate/1.1"
SOFTWARE = "#chimera-lab"
NO_LICENCE = "Not stated yet; CITATION.cff takes it."
KINDS = {
    ".cff": "text/yaml",
    ".csv": "text/csv",
    ".db": "application/vnd.sqlite3",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".lock": "application/json",
    ".md": "text/markdown",
    ".png": "image/png",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
    ".tex": "application/x-tex",
    ".toml": "application/toml",
    ".txt": "text/plain",
}
_KEY = re.compile(r"^(?P<dash>  - )?(?P<indent> *)(?P<key>[a-z-]+): *(?P<value>[^#]*?) *(#.*)?$")


def crate(study: Study) -> str:
    """Write the graph: the bundle, its authors, its files, and the run that produced it."""
    folder, about = study.path, study.plan.study
    design = study.plan.kind.describe(study.plan)
    credited, spdx, doi = read_credits(read_text(folder / CITATION))
    # The manifest is written last, so its size is unknown.
    files = [_file(folder, name) for name in hashes_of(folder) if name != CRATE]
    authors = [_author(each, place) for place, each in enumerate(credited, start=1)]
    employers = {each["affiliation"]["@id"] for each in authors if "affiliation" in each}
    people = authors + [_organization(each) for each in sorted(employers)]
    licence = spdx and f"https://spdx.org/licenses/{spdx}"
    root: dict[str, Any] = {
        "@id": "./",
        "@type": "Dataset",
        "name": about.name,
        "description": about.question or f"Records of a Chimera Lab study: {design}.",
        "datePublished": day(study, "max"),
        "license": {"@id": licence} if licence else NO_LICENCE,
        "identifier": f"https://doi.org/{doi}" if doi else f"sha256:{study.root}",
        "version": (study.root or "")[:12],
        "hasPart": [{"@id": each["@id"]} for each in files],
        "mentions": {"@id": "#run"},
    }
    if authors:
        named = [{"@id": each["@id"]} for each in authors]
        root["author"] = named if len(named) > 1 else named[0]
    made = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": "The runs of the study",
        "instrument": {"@id": SOFTWARE},
        "object": {"@id": "plan.toml"},
        "result": {"@id": "study.db"},
        "startTime": day(study, "min"),
        "endTime": day(study, "max"),
    }
    software = {
        "@id": SOFTWARE,
        "@type": "SoftwareApplication",
        "name": "Chimera Lab",
        "version": __version__,
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": PROFILE},
        "about": {"@id": "./"},
    }
    terms = [{"@id": licence, "@type": "CreativeWork", "name": spdx}] if licence else []
    graph = [descriptor, root, *files, *people, *terms, made, software]
    return json.dumps({"@context": f"{PROFILE}/context", "@graph": graph}, indent=1) + "\n"


def _file(folder: Path, name: str) -> dict[str, Any]:
    kind = KINDS.get(Path(name).suffix, "application/octet-stream")
    return {
        "@id": quote(name),
        "@type": "File",
        "name": name,
        "description": describe(name),
        "encodingFormat": kind,
        "contentSize": str((folder / name).stat().st_size),
    }


def _author(credit: dict[str, str], place: int) -> dict[str, Any]:
    person = {"@id": credit.get("orcid", f"#author-{place}"), "@type": "Person"}
    both = " ".join(filter(None, (credit.get("given-names"), credit.get("family-names"))))
    employer = credit.get("affiliation")
    more = {"affiliation": {"@id": f"#{quote(employer)}"}} if employer else {}
    return {**person, "name": credit.get("name") or both, **more}


def _organization(name: str) -> dict[str, Any]:
    return {"@id": name, "@type": "Organization", "name": unquote(name[1:])}


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
