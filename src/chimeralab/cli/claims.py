"""`chimera claims`: check the numbers and wording of a paper against a study."""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from chimeralab.cli.terminal import sanitize, say, warn_unverified
from chimeralab.core.errors import InputError
from chimeralab.core.files import read_text, write_text
from chimeralab.core.numbers import plural
from chimeralab.core.schema import json_text
from chimeralab.rating.gate import ClaimScope, forbidden_words

PLACEHOLDER = re.compile(r"\{\{\s*([^{}\n]*?)\s*\}\}")
MACRO = re.compile(r"(?<!\\)\\([a-z]+[A-Z][A-Za-z]*)")
# LaTeX uses double braces for other purposes.
LATEX = (".tex", ".bib")
MIN_SIMILARITY = 0.8


@click.command()
@click.argument("text", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--study",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The study that the text is about.",
)
@click.option(
    "--fill",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the text to this file, with every {{name}} replaced by its number.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def claims(text: Path, folder: Path, fill: Path | None, as_json: bool) -> None:
    """Check the numbers and wording of TEXT against a study.

    TEXT is LaTeX, Markdown or plain text, or - for standard input. It refers to numbers by name,
    as macros of `numbers.tex` (\\kappaGate) or in double braces ({{kappaGate}}), so that they
    can't go stale; `chimera report` writes them. The command lists names that the study doesn't
    have and words that its gate forbids, such as "validated", with line numbers. Exit code 1 if
    there are any. Numbers typed by hand are not checked.

    \b
    Example:
      chimera claims paper.md --study my-study --fill paper-filled.md
    """
    # Imported here to report wrong options at once.
    from chimeralab.rating.study_audit import load_reliability, scope_of  # noqa: PLC0415
    from chimeralab.report.named_numbers import load_numbers  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    content = read_text(text, "a text to check", pipes=True)
    study = Study(folder)
    warn_unverified(study)
    numbers = load_numbers(study, say)
    scope = scope_of(load_reliability(study))
    braces = text.suffix not in LATEX
    findings = sorted(check(content, numbers, scope, braces=braces), key=lambda each: each["line"])
    names = [*MACRO.findall(content), *(PLACEHOLDER.findall(content) if braces else ())]
    resolved = sum(name in numbers for name in names)
    if as_json:
        click.echo(json_text({"findings": findings, "resolved": resolved, "scope": scope.name}))
    else:
        for each in findings:
            near = f"; did you mean {each['closest']}?" if each["closest"] else ""
            click.echo(sanitize(f"line {each['line']}: {each['said']}: {each['reason']}{near}"))
        say(f"{plural(resolved, 'number')} resolved, {plural(len(findings), 'finding')}")
    if findings and fill:
        say(f"{fill} was not written; resolve the findings first")
    if findings:
        raise click.exceptions.Exit(1)
    if fill and fill.resolve() == text.resolve():
        raise InputError(f"--fill {fill} would overwrite the text; name another file")
    if fill:
        write_text(fill, PLACEHOLDER.sub(lambda found: numbers[found[1]].text, content))


def check(
    text: str, names: Collection[str], scope: ClaimScope, *, braces: bool = True
) -> Iterator[dict[str, Any]]:
    """Find unknown numbers and forbidden words in a text."""
    for line, words in forbidden_words(text, scope):
        reason = "not allowed by the gate of the study"
        yield {"line": line, "said": words, "reason": reason, "closest": None}
    # A macro is taken for ours if it starts like one of ours or is spelt much like one.
    starts = {re.split("[A-Z]", name)[0] for name in names}
    for pattern in (MACRO, PLACEHOLDER) if braces else (MACRO,):
        for found in pattern.finditer(text):
            name = found[1]
            near = get_close_matches(name, names, n=1, cutoff=MIN_SIMILARITY)
            ours = pattern is PLACEHOLDER or re.split("[A-Z]", name)[0] in starts
            if name not in names and (near or ours):
                line = text.count("\n", 0, found.start()) + 1
                closest = next(iter(near or get_close_matches(name, names, n=1, cutoff=0)), None)
                reason = "the study has no such number"
                yield {"line": line, "said": found[0], "reason": reason, "closest": closest}
