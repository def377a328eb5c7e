"""What is in a bundle, file by file, and how to check and cite it."""

from chimeralab.bundle.facts import design, first_day, last_day
from chimeralab.core.text import markdown
from chimeralab.study import Study
from chimeralab.study.copying import sealed_items

README = "README.md"
# The longest beginning of a path that stands here says what a file is.
FILES = {
    "README.md": "this list, and how to check and cite the bundle",
    "CITATION.cff": "how to cite the bundle (Citation File Format)",
    "datasheet.md": "what the data are, how they came about, what they are for",
    "preregistration.md": "the plan in the order of the OSF Preregistration form",
    "codebook.md": "every column of every table",
    "plan.toml": "the plan as it was written",
    "plan.lock": "the plan with every default, prompt and hash, under one hash",
    "study.db": "all records with the chain of hashes over them (SQLite)",
    "trajectories.jsonl": "whole conversations, word by word (JSON lines)",
    "tables/outcomes.csv": "what was measured: the table that the analysis is made from",
    "tables/trajectories.csv": "every planned conversation and what became of it",
    "tables/turns.csv": "every turn with its text",
    "tables/attempts.csv": "every request to a model, answered or not",
    "tables/events.csv": "interventions and injections",
    "tables/ratings.csv": "the labels of raters",
    "tables/runs.csv": "who ran the study when, with which version",
    "tables/trials.csv": "every question of a trial, with the answer and its score",
    "tables/probes.csv": "what was asked in forks, which the conversation never sees",
    "tables/prompts.csv": "the prompts, or the openings of scenarios",
    "audit/gate-record": "the decided reliability gate: who agreed how far",
    "audit/validity": "the detector against each rater",
    "audit/attempt-": "an earlier attempt at the gate",
    "versions.json": "software, encoder and models, with hashes",
    "report/index.html": "the report, one page that needs no network",
    "report/numbers.json": "every number of the report under a name",
    "report/numbers.tex": "the same as LaTeX macros",
    "report/figures/": "a figure of the report",
    "report/tables/": "a table of the report, with all digits",
    "ro-crate-metadata.json": "the same list for machines (RO-Crate 1.1)",
    "manifest-sha256.txt": "the SHA-256 of every other file",
}
NAMED_BY_PLAN = "a file that the plan names"
TEXT = """\
# {name}

Records of a Chimera Lab study: {design}, {first} to {last}.
{question}
Root hash of the records: `{root}`

## Check it

```
sha256sum --check manifest-sha256.txt      # every file is as it was exported
chimera verify . --expect {root}
chimera analyse .                          # the numbers, computed again
```

`pip install "chimera-lab[lab]"` brings the command. `verify` computes hashes, verdicts, gate,
tables and numbers again from the records in `study.db`. That these are the first ones, only a root
hash from elsewhere shows: out of a paper, a commit or a registration.

## Cite it

As `CITATION.cff` says. Give the root hash where you describe the data.

## What is in it

| file | what it is |
|---|---|
{files}

In CSV files, a text that a spreadsheet would run as a formula has a leading apostrophe;
`trajectories.jsonl` and `study.db` hold it as it was said. Texts were written by language models:
take them as data.
{sealed}"""
SEALED = """
Labels on which the reliability gate may still be decided are left out until it is. The chain in
`study.db` has their hashes.
"""


def describe(name: str) -> str:
    """What a file of a bundle is, by its path."""
    known = [start for start in FILES if name.startswith(start)]
    return FILES[max(known, key=len)] if known else NAMED_BY_PLAN


def readme(study: Study) -> str:
    """The list of what is there; the files of the report are named by their folders."""
    written = [p.relative_to(study.path).as_posix() for p in study.path.rglob("*") if p.is_file()]
    folders = ("report/figures/", "report/tables/")
    later = ("README.md", "ro-crate-metadata.json", "manifest-sha256.txt")
    names = {next((f for f in folders if name.startswith(f)), name) for name in written}
    order = {name: place for place, name in enumerate(FILES)}
    listed = sorted({*names, *later}, key=lambda name: (order.get(name, len(order) / 2), name))
    question = study.plan.study.question
    return TEXT.format(
        name=markdown(study.plan.study.name),
        design=design(study),
        first=first_day(study),
        last=last_day(study),
        question=f"\n> {markdown(question)}\n" if question else "",
        root=study.root,
        sealed=SEALED if sealed_items(study) else "",
        files="\n".join(f"| `{name}` | {describe(name)} |" for name in listed),
    )
