"""Options shared by several commands: which logs to read, how to judge and group them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import reduce
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chimeralab import readers
from chimeralab.cli.terminal import sanitize, say
from chimeralab.core.config import Config, find_config, list_tools
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.extras import require_extra
from chimeralab.core.numbers import plural
from chimeralab.core.parts import CodeFile, Consent, SentKey, find_code
from chimeralab.core.records import Trajectory
from chimeralab.detection.cost import parse_prices
from chimeralab.detection.locked import LOCKED, READINGS, LockedRule
from chimeralab.detection.loops import BOTH, LOOPS, DetectorPair, Loops
from chimeralab.detection.tools import choose_loops, choose_rule, parse_tools, read_rules
from chimeralab.integrations.budget import Budget
from chimeralab.readers.formats import READERS, reader_named
from chimeralab.readers.logs import (
    DAMAGED,
    EMPTY,
    PARTLY,
    count_groups,
    find_logs,
    find_refusal,
)
from chimeralab.readers.logs import read as read_log
from chimeralab.readers.seam import CALLS_READ, Reader
from chimeralab.readers.streams import LIMITS, Limits

MAX_NAMED = 5
MAX_GROUPS = 8
MAX_FIELDS = 12
NO_FIELD = "(no {})"
# What metadata say about how a conversation was read, for one and for several.
NOTED = {
    "unfinished": (
        "{} was unfinished when the log was written",
        "{} were unfinished when the log was written",
    ),
    CALLS_READ: ("calls read from text in {}",) * 2,
}
# What a study's plan sets itself; a job on Ray takes none of the second.
OF_PLAN = {"format", "columns", "price", *LOCKED.as_dict()}
NOT_ON_RAY = {"fail_on", "price"}

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def suggest_table(path: Path, *names: str) -> Iterator[None]:
    """Name the table of an export that a command reads, if it is given another one next to it.

    ``names`` are the tables that it reads; the first one in the folder holds the most.
    """
    try:
        yield
    except LogError as error:
        better = names[: names.index(path.stem)] if path.stem in names else names
        tables = (path.with_name(f"{name}{path.suffix}") for name in better)
        found = next((table for table in tables if table.is_file()), None)
        if found is None:
            raise
        raise InputError(f"{error}; of the tables next to it, give {found}") from None


def read_logs(
    options: Mapping[str, Any], unread: list[LogError] | None = None
) -> Iterator[Trajectory]:
    """Read every conversation that LOG_OPTIONS select; report and count bad entries.

    Files that are not read, or only partly, are added to `unread`. Without --skip-bad, bad entries
    make the command fail after everything else was processed.
    """
    bad: list[list[LogError]] = []
    unread = [] if unread is None else unread
    read, named = 0, set(map(str, options["paths"]))
    noted = Counter[str]()
    context = click.get_current_context()
    chosen = options.get("logs")  # by `detect`: those that are new
    logs = chosen
    if logs is None:
        logs = find_logs(options["paths"], format=options["format"], on_skip=unread.append)
    for log in logs:
        errors: list[LogError] = []
        before = read
        for trajectory in read_log(
            log, format=options["format"], on_bad=errors.append, on_partly=unread.append
        ):
            read += 1
            noted.update(name for name in NOTED if trajectory.metadata.get(name))
            yield trajectory
        if errors and read == before:
            unread.append(_explain_unread(log, errors[0]))
        # A log without a conversation is bad only if it was asked for by name.
        bad.append([e for e in errors if not e.group or (e.group == EMPTY and log in named)])
    bad = list(filter(None, bad))

    def finish() -> None:
        say_skipped(bad, unread, verbose=options["verbose"])
        skipped = plural(sum(map(len, bad)), "bad entry", "bad entries") + " skipped"
        if bad and (read or chosen) and not options["skip_bad"]:
            raise InputError(f"{skipped}; use --skip-bad to allow that")
        if bad:
            say(skipped)

    context.call_on_close(finish)  # after the results
    if not read and chosen is None:
        raise InputError(f"no conversation found in {', '.join(options['paths'])}")
    for name, count in noted.items():
        say(NOTED[name][count > 1].format(plural(count, "conversation")))


def _explain_unread(log: str, error: LogError) -> LogError:
    """Say why nothing of a log could be read."""
    found = find_refusal(log) if Path(log).is_file() else None
    group = f"{error.format} (bad entries)" if error.format else error.group or DAMAGED
    return found or LogError(error.source, error.reason, error.line, error.format, group)


def say_skipped(
    bad: Sequence[Sequence[LogError]], unread: Sequence[LogError], *, verbose: bool
) -> None:
    """Report bad entries, by log, and files that were not read; the first few, unless verbose."""
    # The first of each log, then the second of each, and so on.
    errors = [e for turn in zip_longest(*(each[:MAX_NAMED] for each in bad)) for e in turn if e]
    partly = [error for error in unread if error.group == PARTLY]
    # If there are many, two of them are an example, and all fits on a screen.
    few = [len(each) if verbose or len(each) <= MAX_NAMED else 2 for each in (errors, partly)]
    for error in errors[: few[0]]:
        say(f"skipped {error}")
    for error in partly[: few[1]]:
        say(f"partly read, so its verdicts are not a result: {error}")
    if len(partly) > few[1]:
        say(f"… and {len(partly) - few[1]:,} more logs partly read")
    missing = [error for error in unread if error.group != PARTLY]
    if not missing:
        return
    groups = count_groups(missing)
    shown, rest = groups[:MAX_GROUPS], len(groups) - MAX_GROUPS
    if verbose or rest < 2:
        shown = groups
    else:
        shown.append(f"and {rest} smaller groups")
    tail = ":" if verbose else " (--verbose lists them)"
    say(f"{plural(len(missing), 'file')} not read: {', '.join(shown)}{tail}")
    for error in missing if verbose else ():
        say(f"  {error}")


def _choose_reader(
    context: click.Context, _option: click.Parameter, name: str | None
) -> type[Reader] | None:
    columns = context.params["columns"]  # parsed first, because it is eager
    if columns and name not in (None, "rows"):
        raise InputError(
            f"--columns is for tables of rows and can't be combined with --format {name}"
        )
    if columns:
        return readers.rows_with(columns)
    return readers.reader_named(name) if name else None


def _limit(name: str, text: str) -> Decorator:
    default = getattr(Limits, name)

    def choose(_context: click.Context, _option: click.Parameter, given: int | None) -> int | None:
        setattr(LIMITS, name, given or default)
        return given

    help_text, whole = f"{text} [default: {default:,}]", click.IntRange(min=1)
    return click.option(f"--max-{name}", type=whole, metavar="N", callback=choose, help=help_text)


STUDY_ARGUMENT: Decorator = click.argument("path", metavar="STUDY", type=click.Path(path_type=Path))
JSON_OPTION: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object."
)
FULL_OPTION: Decorator = click.option(
    "--full", is_flag=True, help="Print all tables and notes below the verdict."
)
CODE_OPTION: Decorator = click.option(
    "--allow-code",
    is_flag=True,
    default=None,
    help="Run the code and send the API keys that a study's plan names, without asking.",
)
DEMO_OPTION: Decorator = click.option(
    "--demo",
    is_flag=True,
    help="Instead of PATH, take built-in examples, by words and tool calls; needs no network.",
)
PRICE_OPTION = click.option(
    "--price",
    metavar="in=…,out=…",
    callback=lambda _context, _option, text: text and parse_prices(text),
    help="What a million tokens cost that are read and written, for logs without prices.",
)
LOG_OPTIONS: tuple[Decorator, ...] = (
    # Patterns and - are paths too; the type makes shells complete file names.
    click.argument(
        "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(readable=False)
    ),
    click.option(
        "--format",
        metavar="NAME|module:Class",
        callback=_choose_reader,
        help="Log format; detected by default (`chimera formats` lists them).",
    ),
    click.option(
        "--columns",
        metavar="id=…,speaker=…,text=…",
        is_eager=True,
        help="Column names of a table, where they differ from the usual ones.",
    ),
    click.option(
        "--speaker",
        metavar="NAME|all|assistant",
        help="Judge only these turns. Default: the assistant's in a chat, all in self-play.",
    ),
    click.option("--skip-bad", is_flag=True, help="Don't fail if some entries can't be read."),
    _limit("turns", "Refuse a conversation with more turns."),
    _limit("expansion", "Refuse a log that decompresses to more than N times its size."),
    click.option("--verbose", is_flag=True, help="List each file that was not read, and why."),
    click.option(
        "--cache",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Cache sentence vectors in this file, to speed up the next run.",
    ),
)

TOOL_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--ignore", metavar="TOOL", multiple=True, help="Ignore the calls of this tool; repeatable."
    ),
    click.option(
        "--repeats",
        metavar="TOOL=N",
        multiple=True,
        help="Number of identical calls of a tool that make a loop (default 3); repeatable.",
    ),
)
IDENTITY_OPTION: Decorator = click.option(
    "--identity",
    metavar="TOOL=ARGUMENT,…",
    multiple=True,
    help="Arguments that make two calls of a tool the same; repeatable.",
)
WHICH_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--detector",
        "which",
        type=click.Choice(["both", "locked", "loops"]),
        default="both",
        show_default=True,
        help="Use the locked collapse detector, the loop detector, or both.",
    ),
    click.option(
        "--no-vectors",
        is_flag=True,
        help="Use words and tool calls only: fast, but no collapse verdict.",
    ),
)

_HELP = {
    "s1": "Minimum similarity to the last turn that counts as a repeat.",
    "s2": "Minimum similarity to the turn before the last that counts as a repeat.",
    "d1": "Maximum drift (1 - s1) of a collapsed turn.",
    "d2": "Maximum drift (1 - s2) of a collapsed turn.",
    "window": "Number of consecutive repeats that make a collapse.",
    "sustain": "Whether either kind of repeat continues a run, or only the same kind.",
    "drift": "Which drift must be low: the one that matches the repeat, both, or either.",
    "marking": "Mark a run from the turn that completes it, or from its first turn.",
    "empty": "Turns without words: judge them, let them break a run, or skip them.",
}


def _detector_option(name: str) -> Decorator:
    default = getattr(LOCKED, name)
    kind = click.Choice(READINGS[name]) if name in READINGS else type(default)
    return click.option(
        f"--{name}", type=kind, default=default, show_default=True, help=_HELP[name]
    )


READING_OPTIONS = tuple(map(_detector_option, ("window", *READINGS)))
DETECTOR_OPTIONS = (*map(_detector_option, ("s1", "s2", "d1", "d2")), *READING_OPTIONS)


def with_options(*options: Decorator) -> Decorator:
    """Apply option decorators so that the help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda inner, option: option(inner), reversed(options), command)

    return decorate


def pop_detector(options: dict[str, Any]) -> LockedRule:
    """Build the detector from a command's options, and remove them."""
    given = {field.name: options.pop(field.name) for field in fields(LockedRule)}
    return LOCKED if given == LOCKED.as_dict() else LockedRule(**given)


def choose_judges(
    detector: LockedRule, options: dict[str, Any], loop_detector: Loops = LOOPS
) -> DetectorPair:
    """Choose the detectors by WHICH_OPTIONS; reject settings that would have no effect."""
    which = options["which"]
    loops = None if which == "locked" else loop_detector
    if which != "loops" and not options["no_vectors"]:
        if detector is LOCKED and loops is LOOPS:
            return BOTH
        return DetectorPair(detector, loops)
    useless = [*detector.changed, *(["trace"] if options.get("trace") else [])]
    useless += [] if loops else ["detector locked"]
    if useless:
        given = "--no-vectors" if options["no_vectors"] else "--detector loops"
        raise InputError(f"{given} computes no collapse verdict; leave out --{useless[0]}")
    return DetectorPair(None, loops)


def list_defaults() -> dict[str, Any]:
    """The defaults that the configuration gives to the options of commands on logs."""
    config = find_config()
    if not config.values:
        return {}
    check_config(config)
    values, defaults = config.values, dict[str, Any]()
    defaults |= {k: v for k, v in values.get("thresholds", {}).items() if k != "loops"}
    for name in ("price", "columns"):
        if name in values:
            defaults[name] = ",".join(f"{key}={value}" for key, value in values[name].items())
    if "fail_on" in values:
        defaults["fail_on"] = values["fail_on"]
    return defaults


def check_config(config: Config) -> None:
    """Refuse a configuration that some command or guard could not use."""
    choose_rule(), choose_loops()
    read_rules(list_tools(config))
    try:
        Budget(config.values.get("budget"))
    except InputError as error:
        raise InputError(f"{config.place}: {error}") from None


def read_project(options: dict[str, Any]) -> tuple[dict[str, Any], Loops]:
    """Take over what the configuration says: return rules per tool and the loop detector.

    What a study's plan sets, or a job on Ray can't do, is left out of the options, unless the
    command line says it.
    """
    context, config = click.get_current_context(), find_config()
    rules = options["ignore"], options["repeats"], options["identity"]
    given = parse_tools(*rules) if any(rules) else {}
    of_study = len(options["paths"]) == 1 and (Path(options["paths"][0]) / "plan.toml").is_file()
    left_out = OF_PLAN if of_study else NOT_ON_RAY if options["engine"] == "ray" else set()
    if options["no_vectors"] or options["which"] == "loops":
        left_out = left_out | set(LOCKED.as_dict())
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in left_out and source is ParameterSource.DEFAULT_MAP:
            options[name] = () if parameter.multiple else getattr(LOCKED, name, None)
    if of_study or not config.values:
        return given, LOOPS
    consent = ask_consent(options["allow_code"], "the configuration")
    for name in config.values.get("formats", ()):
        consent(find_code(name.partition(":")[0], Path.cwd()))
        reader = reader_named(name)
        READERS.setdefault(reader.name, reader)
    return list_tools(config, given), choose_loops()


def ask_consent(allowed: bool | None, who: str = "the plan") -> Consent:
    """Make a function that asks before a plan's code runs or its keys are sent.

    --allow-code answers yes; without it, somebody must be at the terminal.
    """
    granted = set[CodeFile | SentKey]()

    def consent(request: CodeFile | SentKey) -> None:
        if request in granted:
            return
        action = f"{who} {request.effect}"
        if allowed:
            say(action)
        elif not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InputError(f"{action}; if you trust it, use --allow-code")
        elif not click.confirm(sanitize(f"{action}. Allow it?"), err=True):
            raise InputError(f"not allowed: {action}")
        granted.add(request)

    return consent


def use_demo(options: dict[str, Any]) -> None:
    """Take the built-in examples instead of logs, and nothing that a project or network adds."""
    if options["paths"]:
        raise InputError("--demo takes built-in examples: leave it out, or the PATH")
    installed, tree = (Path(__file__).parents[n] / "examples" for n in (1, 3))
    folder = installed if installed.is_dir() else tree
    options |= {"paths": (str(folder / "*.jsonl"),), "no_vectors": True}


def is_study(paths: Sequence[str]) -> bool:
    """Whether the paths are a single study folder, which needs the `lab` extra."""
    found = len(paths) == 1 and (Path(paths[0]) / "plan.toml").is_file()
    if found:
        require_extra("lab")
    return found


def check_group_field(field: str, groups: Iterable[str], fields: Iterable[str]) -> None:
    """Reject a --group-by field that no conversation has."""
    if list(groups) == [NO_FIELD.format(field)]:
        known = ", ".join(sorted(map(sanitize, fields))[:MAX_FIELDS]) or "none"
        raise InputError(f"no conversation has a field {field!r} to group by; fields: {known}")


def group_name(trajectory: Trajectory, positions: Iterable[int], field: str) -> str:
    """Get the value of a metadata field; the model may also be that of the judged turns."""
    value = trajectory.metadata.get(field)
    if value is None and field == "model":
        models = {trajectory.turns[position - 1].model for position in positions}
        value = "+".join(sorted(filter(None, models)))
    return str(value) if value not in (None, "") else NO_FIELD.format(field)
