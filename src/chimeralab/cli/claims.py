"""`chimera claims`: are the numbers of a text those of a study, and its words those of the gate?"""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from chimeralab.cli.terminal import sanitize, say, warn_unverified
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text, read_text, write_text
from chimeralab.core.numbers import plural
from chimeralab.rating.gate import ClaimScope, forbidden_words

PLACEHOLDER = re.compile(r"\{\{\s*([^{}\n]*?)\s*\}\}")
MACRO = re.compile(r"(?<!\\)\\([a-z]+[A-Z][A-Za-z]*)")
# LaTeX writes double braces for other reasons.
OF_LATEX = (".tex", ".bib")
NEAR = 0.8


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
    help="Write the text to this file with every {{name}} replaced by its number.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def claims(text: Path, folder: Path, fill: Path | None, as_json: bool) -> None:
    """Check the numbers and the words of TEXT against a study.

    TEXT is LaTeX, Markdown or plain text, - for standard input. It takes numbers from
    `numbers.tex` as macros (\\kappaGate) or names them in double braces ({{kappaGate}}), so that
    they can't go stale; `chimera report` writes them. The output lists, with their lines, names
    that the study does not have and words that its gate forbids, such as "validated". Exit code 1
    if there are any. Numbers typed by hand are not checked.
    """
    # Imported here: a study is slow to import, and a wrong option should be reported at once.
    from chimeralab.rating.study_audit import reliability, scope_of  # noqa: PLC0415
    from chimeralab.report.named_numbers import load_numbers  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    content = read_text(text, "a text to check")
    study = Study(folder)
    warn_unverified(study)
    numbers = load_numbers(study, say)
    scope = scope_of(reliability(study))
    braces = text.suffix not in OF_LATEX
    findings = sorted(check(content, numbers, scope, braces=braces), key=lambda each: each["line"])
    names = [*MACRO.findall(content), *(PLACEHOLDER.findall(content) if braces else ())]
    resolved = sum(name in numbers for name in names)
    if as_json:
        click.echo(json_text({"findings": findings, "resolved": resolved, "scope": scope.name}))
    else:
        for each in findings:
            near = f"; did you mean {each['closest']}?" if each["closest"] else ""
            click.echo(sanitize(f"line {each['line']}: {each['said']}: {each['reason']}{near}"))
        say(f"{plural(resolved, 'number')} of the study, {plural(len(findings), 'finding')}")
    if findings:
        raise click.exceptions.Exit(1)
    if fill and fill.resolve() == text.resolve():
        raise InputError(f"--fill {fill} would write over the text; name another file")
    if fill:
        write_text(fill, PLACEHOLDER.sub(lambda found: numbers[found[1]].text, content))


def check(
    text: str, names: Collection[str], scope: ClaimScope, *, braces: bool = True
) -> Iterator[dict[str, Any]]:
    """Everything in a text that a study with these numbers and this gate does not allow."""
    for line, words in forbidden_words(text, scope):
        reason = "the gate of the study does not allow this"
        yield {"line": line, "said": words, "reason": reason, "closest": None}
    # A macro looks like ours when it starts as one of ours does, or is spelt much like one.
    starts = {re.split("[A-Z]", name)[0] for name in names}
    for pattern in (MACRO, PLACEHOLDER) if braces else (MACRO,):
        for found in pattern.finditer(text):
            name = found[1]
            near = get_close_matches(name, names, n=1, cutoff=NEAR)
            ours = pattern is PLACEHOLDER or re.split("[A-Z]", name)[0] in starts
            if name not in names and (near or ours):
                line = text.count("\n", 0, found.start()) + 1
                closest = next(iter(near or get_close_matches(name, names, n=1, cutoff=0)), None)
                reason = "the study has no such number"
                yield {"line": line, "said": found[0], "reason": reason, "closest": closest}
