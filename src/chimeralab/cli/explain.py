"""`chimera explain`: why a conversation loops or not, message by message."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from chimeralab.cli.options import (
    DEMO_OPTION,
    IDENTITY_OPTION,
    JSON_OPTION,
    LOG_OPTIONS,
    TOOL_OPTIONS,
    read_logs,
    read_project,
    use_demo,
    with_options,
)
from chimeralab.cli.pages import MAX_SUGGESTIONS, find_conversation
from chimeralab.cli.terminal import out, sanitize
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Trajectory, name_kind
from chimeralab.core.schema import json_text
from chimeralab.detection.locked import LOCKED


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(readable=False))
@with_options(*LOG_OPTIONS[1:], DEMO_OPTION)
@click.option("--id", "wanted", metavar="ID", help="The conversation, if there are several.")
@click.option(
    "--message", type=click.IntRange(min=1), metavar="N", help="Only this message, in full."
)
@click.option(
    "--no-vectors", is_flag=True, help="Use words and tool calls only: fast, and needs no model."
)
@JSON_OPTION
@with_options(*TOOL_OPTIONS, IDENTITY_OPTION)
def explain(**options: Any) -> None:
    """Explain why a conversation loops, or why not.

    For each message: what it is evidence of, which earlier messages it was compared with, and which
    rules kept it quiet. A sum of evidence has to reach 1.6 for a loop.

    \b
    Examples:
      chimera explain --demo --id looping-agent
      chimera explain logs/run.jsonl --id run-17 --message 12
    """
    from chimeralab.detection.explain import explain as explain_talk  # noqa: PLC0415 - slow

    if options["demo"]:
        use_demo(options)
    if not options["paths"]:
        raise click.UsageError("Missing argument 'PATH...', or --demo.")
    options |= {"which": "both", "engine": "local", "allow_code": None}
    tools, loops = read_project(options)
    talk = choose_conversation(list(read_logs(options)), options["wanted"])
    found = explain_talk(
        talk,
        message=options["message"],
        speaker=options["speaker"],
        detector=LOCKED,
        vectors=not options["no_vectors"],
        loops=loops,
        tools=tools,
    )
    if options["as_json"]:
        click.echo(json_text(found))
        return
    say_line(found["verdict"], style="bold")
    shown = [row for row in found["messages"] if options["message"] or is_evidence(row)]
    for row in shown:
        say_line("")
        for line in describe_message(row, full=bool(options["message"])):
            say_line(line)
    rest = len(found["messages"]) - len(shown)
    if rest:
        say_line("")
        none = f"{plural(rest, 'message')} without evidence: --message N says why"
        say_line(none, style="dim")


def choose_conversation(talks: Sequence[Trajectory], wanted: str | None) -> Trajectory:
    """The conversation that is asked for, or the only one."""
    if wanted is None and len(talks) > 1:
        named = ", ".join(sanitize(talk.id) for talk in talks[:MAX_SUGGESTIONS])
        raise InputError(f"{len(talks):,} conversations: choose one with --id, such as {named}")
    return find_conversation(talks, wanted)


def say_line(text: str, style: str = "") -> None:
    out.print(sanitize(text), markup=False, soft_wrap=True, style=style)


def is_evidence(row: Mapping[str, Any]) -> bool:
    """Whether a message is evidence of a loop."""
    return bool(row["evidence"] or row["noticed"] or row.get("locked", {}).get("collapsed"))


def describe_message(row: Mapping[str, Any], *, full: bool) -> Iterator[str]:
    """A message in a few lines."""
    speaker = f" {row['speaker']}" if row["speaker"] else ""
    yield f"message {row['position']}{speaker}: {row['excerpt']}"
    for each in row["evidence"]:
        needed, like = each.get("needed"), ", ".join(map(str, each["compared"]))
        name = name_kind(each["kind"]) if each["rule"] != "ending" else "says nothing new"
        strength = f"{each['strength']:.2f}"
        if each["rule"] in ("calls", "answers"):
            strength = f"{each['strength']:g} times" + (f" of {needed}" if needed else "")
        elif needed:
            strength += f" of {needed:g} for a {each['kind']}"
        own = " (among its speaker's own)" if each["rule"] == "own" else ""
        yield f"  {name}{own}: {strength}{f', as in {like}' if like else ''}"
    for name, each in row["sums"].items():
        yield f"  sum of {name}: {each['value']:g} of {each['needed']:g} for a {each['level']}"
    for loop in row["noticed"]:
        kind = name_kind(loop["kind"], loop["period"], loop["stream"])
        yield f"  → {loop['level']}: {kind}, since message {loop['began']}"
    for reason in row["quiet"] if full or not (row["inside"] or row["noticed"]) else ():
        yield f"  kept quiet: {reason}"
    if "locked" in row and (full or row["locked"]["collapsed"]):
        yield f"  locked rule: {describe_rule(row['locked'])}"


def describe_rule(found: Mapping[str, Any]) -> str:
    """What the locked rule measured."""
    if found["s1"] is None:
        return "the first turn"
    s2 = "" if found["s2"] is None else f", {found['s2']:.2f} to the one before"
    needs = found["needs"]
    verdict = "collapsed" if found["collapsed"] else f"run of {found['run']} of {needs['window']}"
    return (
        f"similarity {found['s1']:.2f} to the last turn{s2}"
        f" (it needs {needs['s1']:g} or {needs['s2']:g}): {verdict}"
    )
