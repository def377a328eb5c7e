"""Options that several commands share: which logs to read, how to judge and group them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

import click

from chimeralab import readers
from chimeralab.cli.terminal import sanitize, say
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.extras import need
from chimeralab.core.parts import CodeFile, Consent, SentKey
from chimeralab.core.records import Trajectory
from chimeralab.detection.locked import LOCKED, READINGS, Locked
from chimeralab.detection.loops import LOOPS, Judges

MAX_NAMED = 5
MAX_FIELDS = 12
NO_FIELD = "(no {})"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def read_logs(options: Mapping[str, Any]) -> Iterator[Trajectory]:
    """Every conversation that LOG_OPTIONS ask for. What can't be read is named and counted.

    Unless it was asked for, skipping makes the command fail once all others were judged.
    """
    bad: dict[str, list[LogError]] = {}
    others: list[str] = []
    read = unfinished = 0
    context = click.get_current_context()
    for trajectory in readers.read_all(
        options["paths"],
        format=options["format"],
        on_bad=lambda error: bad.setdefault(error.source, []).append(error),
        on_skip=others.append,
    ):
        read += 1
        unfinished += trajectory.metadata.get("unfinished") is True
        yield trajectory
    for error in chain.from_iterable(errors[:MAX_NAMED] for errors in bad.values()):
        say(f"skipped {error}")
    count = sum(map(len, bad.values()))
    if count:
        entries = f"{count} bad {'entry' if count == 1 else 'entries'} skipped"
        say(entries)
        if not read:
            raise InputError(f"no conversation could be read from {', '.join(options['paths'])}")
        if not options["skip_bad"]:

            def refuse() -> None:
                raise InputError(f"{entries}; --skip-bad allows that")

            context.call_on_close(refuse)
    if unfinished:
        say(
            f"{unfinished} {'conversation was' if unfinished == 1 else 'conversations were'}"
            " not finished when the log was written"
        )
    if others:
        say(
            f"{len(others)} other {'file' if len(others) == 1 else 'files'} passed over"
            + (":" if options["verbose"] else "; --verbose names them")
        )
        for other in others if options["verbose"] else ():
            say(f"  {other}")


def _reader(
    context: click.Context, _option: click.Parameter, name: str | None
) -> type[readers.Reader] | None:
    columns = context.params["columns"]  # which is eager, as both options decide the format
    if columns and name not in (None, "rows"):
        raise InputError(f"--columns is for tables of rows; leave out --format {name}")
    if columns:
        return readers.rows_with(columns)
    return readers.reader_named(name) if name else None


STUDY_ARGUMENT: Decorator = click.argument("path", metavar="STUDY", type=click.Path(path_type=Path))
JSON_OPTION: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object."
)
CODE_OPTION: Decorator = click.option(
    "--allow-code",
    is_flag=True,
    default=None,
    help="In a study: run the code and send the keys that its plan names, without asking.",
)
LOG_OPTIONS: tuple[Decorator, ...] = (
    # Patterns and - are paths, too: the type is there for shells to complete names of files.
    click.argument(
        "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(readable=False)
    ),
    click.option(
        "--format",
        metavar="NAME|module:Class",
        callback=_reader,
        help="Read the logs in this format (`chimera formats` lists them) instead of guessing it.",
    ),
    click.option(
        "--columns",
        metavar="id=…,speaker=…,text=…",
        is_eager=True,
        help="Which column of a table is which; usual names are recognised.",
    ),
    click.option(
        "--speaker",
        metavar="NAME|all|assistant",
        help="Whose turns to judge. Default: the assistant's in a chat, everybody's in self-play.",
    ),
    click.option(
        "--skip-bad", is_flag=True, help="Skip and count what can't be read, without failing."
    ),
    click.option("--verbose", is_flag=True, help="Name the files in folders that are not logs."),
    click.option(
        "--cache",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Keep vectors in this file, to speed up the next run.",
    ),
)

WHICH_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--detector",
        "which",
        type=click.Choice(["both", "locked", "loops"]),
        default="both",
        show_default=True,
        help="The locked collapse detector, the loop detector, or both.",
    ),
    click.option(
        "--no-vectors",
        is_flag=True,
        help="Judge by words and tool calls alone: quick, without the collapse verdict.",
    ),
)

_MEANING = {
    "s1": "Similarity to the last turn that counts as a repeat.",
    "s2": "Similarity to the turn before the last that counts as a repeat.",
    "d1": "Largest drift (1 - s1) of a collapsed turn.",
    "d2": "Largest drift (1 - s2) of a collapsed turn.",
    "window": "How many repeating turns in a row make a collapse.",
    "sustain": "Whether either kind of repeat keeps a run going, or only the same kind.",
    "drift": "Which drift must be low: the one that matches the repeat, both, or either.",
    "marking": "Mark a run from the turn that completes it, or back to its first turn.",
    "empty": "Turns without a word: judge them, let them break a run, or leave them out.",
}


def _detector_option(name: str) -> Decorator:
    default = getattr(LOCKED, name)
    kind = click.Choice(READINGS[name]) if name in READINGS else type(default)
    return click.option(
        f"--{name}", type=kind, default=default, show_default=True, help=_MEANING[name]
    )


READING_OPTIONS = tuple(map(_detector_option, ("window", *READINGS)))
DETECTOR_OPTIONS = (*map(_detector_option, ("s1", "s2", "d1", "d2")), *READING_OPTIONS)


def with_options(*options: Decorator) -> Decorator:
    """Stack decorators so that the help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda inner, option: option(inner), reversed(options), command)

    return decorate


def pop_detector(options: dict[str, Any]) -> Locked:
    """Build the detector from a command's options and remove them from there."""
    return Locked(**{field.name: options.pop(field.name) for field in fields(Locked)})


def choose_judges(detector: Locked, options: dict[str, Any]) -> Judges:
    """What WHICH_OPTIONS ask for; settings of a detector that would not be used are refused."""
    which = options["which"]
    loops = None if which == "locked" else LOOPS
    if which != "loops" and not options["no_vectors"]:
        return Judges(detector, loops)
    useless = [*detector.changed, *(["trace"] if options.get("trace") else [])]
    useless += [] if loops else ["detector locked"]
    if useless:
        asked = "--no-vectors" if options["no_vectors"] else "--detector loops"
        raise InputError(f"with {asked} there is no collapse verdict; leave out --{useless[0]}")
    return Judges(None, loops)


def ask_consent(allowed: bool | None) -> Consent:
    """Have the user allow what a plan does with their rights: by a flag, or on a terminal."""

    answered = set[CodeFile | SentKey]()

    def consent(asked: CodeFile | SentKey) -> None:
        if asked in answered:
            return
        does = f"the plan {asked.does}"
        if allowed:
            say(does)
        elif not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InputError(f"{does}; if you trust it, allow it with --allow-code")
        elif not click.confirm(sanitize(f"{does}. Allow it?"), err=True):
            raise InputError(f"you did not allow it: {does}")
        answered.add(asked)

    return consent


def is_study(paths: Sequence[str]) -> bool:
    """Whether the paths are one study folder; only the lab can open one."""
    found = len(paths) == 1 and (Path(paths[0]) / "plan.toml").is_file()
    if found:
        need("lab")
    return found


def check_group_field(field: str, groups: Iterable[str], fields: Iterable[str]) -> None:
    """Raise when every conversation is in the group of those that lack the field."""
    if list(groups) == [NO_FIELD.format(field)]:
        known = ", ".join(sorted(map(sanitize, fields))[:MAX_FIELDS]) or "none"
        raise InputError(
            f"no conversation has a field {field!r} to group by; their fields: {known}"
        )


def group_name(trajectory: Trajectory, positions: Iterable[int], field: str) -> str:
    """The value of a metadata field; models are found at the judged turns too."""
    value = trajectory.metadata.get(field)
    if value is None and field == "model":
        models = {trajectory.turns[position - 1].model for position in positions}
        value = "+".join(sorted(filter(None, models)))
    return str(value) if value not in (None, "") else NO_FIELD.format(field)
