"""How a bundle is cited: a `CITATION.cff` with blanks for what only the author knows."""

import json
import re
from typing import NamedTuple

from chimeralab.bundle.facts import last_day
from chimeralab.study import Study
from chimeralab.version import __version__

CITATION = "CITATION.cff"
BLANK = "TO FILL IN"
_KEY = re.compile(r"^(?P<dash>  - )?(?P<indent> *)(?P<key>[a-z-]+): *(?P<value>[^#]*?) *(#.*)?$")


def citation(study: Study) -> str:
    """The file in the Citation File Format 1.2.0, which repositories and editors read."""
    about = study.plan.study
    lines = [
        "# How to cite this bundle. Fill in names, licence and, once there is one, the DOI;",
        "# then export again into the same folder, which keeps your words and seals them.",
        "cff-version: 1.2.0",
        'message: "If you use these data, please cite them as below."',
        "type: dataset",
        f"title: {json.dumps(f'{about.name}: records of a Chimera Lab study', ensure_ascii=False)}",
        *(
            [f"abstract: {json.dumps(about.question, ensure_ascii=False)}"]
            if about.question
            else []
        ),
        "authors:",
        f'  - family-names: "{BLANK}"',
        f'    given-names: "{BLANK}"',
        "#   affiliation: The place where you work",
        "#   orcid: https://orcid.org/0000-0000-0000-0000",
        f'version: "{(study.root or "unchained")[:12]}"',
        f"date-released: {last_day(study)}",
        "# license: CC-BY-4.0",
        "# doi: 10.5281/zenodo.0000000",
        "identifiers:",
        "  - type: other",
        f'    value: "sha256:{study.root}"',
        '    description: "Root hash of the records; chimera verify --expect checks it"',
        "references:",
        "  - type: software",
        "    title: Chimera Lab",
        f'    version: "{__version__}"',
        "    authors:",
        '      - name: "The Chimera Lab contributors"',
    ]
    return "\n".join(lines) + "\n"


class Credits(NamedTuple):
    """What a citation file says of the people and the licence; blanks are left out."""

    authors: tuple[dict[str, str], ...]
    licence: str | None
    doi: str | None


def read_credits(text: str) -> Credits:
    """Read authors, licence and DOI of a file that was written above and completed by hand.

    >>> read_credits("authors:\\n  - family-names: Doe\\n    given-names: Ann\\nlicense: CC0-1.0")
    Credits(authors=({'family-names': 'Doe', 'given-names': 'Ann'},), licence='CC0-1.0', doi=None)
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
    return Credits(tuple(filter(None, authors)), top.get("license"), top.get("doi"))
