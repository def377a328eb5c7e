"""Which software, encoder and models had a hand in a study, with the hashes that name them."""

import json
from pathlib import Path
from typing import Any

from chimeralab.embedding.encoder import MODEL
from chimeralab.report.frame import models, software
from chimeralab.study import Study
from chimeralab.study.lock import resolve
from chimeralab.version import __version__

VERSIONS = "versions.json"


def versions(study: Study) -> str:
    """Everything as JSON. A hash is null where the files are out of our sight, as on a server."""
    # What was locked is what was used; a study without a lock has what its plan resolves to.
    known = study.lock.resolved if study.lock else resolve(study.plan)
    found: dict[str, Any] = {
        "bundle_made_with": __version__,
        "root_hash": study.root,
        "lock": study.lock.sha256 if study.lock else None,
        "locked_at": study.lock.locked_at if study.lock else None,
        "software": {row["what"]: row["version"] for row in software(study).raw},
        "encoder": {
            "name": MODEL,
            "sha256": known["encoder"],
            "used": bool(study.plan.detector.settings.needs.lags),
        },
        "models": [
            {**row, "weights_sha256": known["weights"].get(row["model"])}
            for row in models(study).raw
        ],
        "outside_code_sha256": known["outside_code"],
    }
    return json.dumps(found, indent=1) + "\n"


def made_with(folder: Path) -> str:
    """The version of this package that a bundle was made with."""
    try:
        found = json.loads((folder / VERSIONS).read_text(encoding="utf-8"))
        return str(found["bundle_made_with"])
    except (OSError, ValueError, KeyError, TypeError):
        return "of an unknown version"
