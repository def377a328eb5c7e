"""The command `chimera`: finds the subcommand, runs it, and turns our errors into one sentence."""

import gc
import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from chimeralab.core.errors import ChimeraError
from chimeralab.core.extras import missing_extra, need
from chimeralab.core.parts import choose
from chimeralab.version import __version__

LAB = "lab"
BROKEN_PIPE, INTERRUPTED = 128 + 13, 128 + 2
# Where each command lives, what it is for, and the extra without which it can do nothing. Its
# module is imported only when needed.
COMMANDS: dict[str, tuple[str, str, str | None]] = {
    "detect": ("detect:detect", "Say which conversations loop or collapsed, and where.", None),
    "sweep": ("sweep:sweep", "Try a grid of thresholds on the same similarities.", None),
    "show": ("pages:show", "Draw a conversation as a page, or many with an index.", LAB),
    "view": ("pages:view", "Browse logs and watch studies in the browser.", LAB),
    "new": ("prepare:new", "Start a study: write a plan and its prompts.", LAB),
    "check": (
        "prepare:check", "Validate a plan, count its calls, check that its models answer.", LAB
    ),
    "lock": ("prepare:lock", "Freeze a plan under a hash before the first run.", LAB),
    "run": ("run:run", "Run the planned conversations, or resume them.", LAB),
    "verify": ("export:verify", "Check a study: recompute verdicts, gate and hashes.", LAB),
    "export": ("export:export", "Write a study's records as Parquet, CSV or JSON Lines.", LAB),
    "rubric": ("rate:rubric", "Show the locked rubric that raters follow.", None),
    "rate": ("rate:rate", "Label conversations: by rules, by a model, or by people.", None),
    "plan-ratings": ("audit:plan_ratings", "Say how many items raters must label.", None),
    "audit": ("audit:audit", "Say how well raters agree, and whether the gate passes.", None),
    "claims": ("claims:claims", "Check a text's numbers and words against a study.", LAB),
    "analyse": (
        "analyse:analyse_command", "Estimate collapse by condition, with clustered intervals.", LAB
    ),
    "compare": ("analyse:compare_command", "Compare two studies or tables of runs.", LAB),
    "report": ("pages:report", "Write a study's report: one page, figures, tables.", LAB),
    "measure": (
        "measure:measure_command", "Score trial logs: memory, generalisation, stability.", LAB
    ),
    "formats": ("models:formats", "List the log formats, and how each is recognised.", None),
    "hook": ("hook:hook", "Guard an agent (Claude Code) against loops while it runs.", None),
    "models": ("models:models", "List, pull and verify model files.", None),
}  # fmt: skip


class SuggestingGroup(click.Group):
    """Refuses an unknown command with the closest one as a hint, and all that there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # An option in the wrong place is click's to explain; completion must not fail.
        if not args[0].startswith("-") and not ctx.resilient_parsing:
            choose(args[0], self.list_commands(ctx), f"command {args[0]!r}")
        return super().resolve_command(ctx, args)


class ReaderGone(Exception):
    """Nobody reads our output any more. click would take the system's own error for a failure."""


@contextmanager
def telling_readers_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None


class LazyGroup(SuggestingGroup):
    """A group that imports a subcommand when it is called, so that starting stays quick."""

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        with telling_readers_gone():  # the help is printed here
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with telling_readers_gone():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        place, _, extra = COMMANDS[cmd_name]
        if extra:
            need(extra)
        module, attribute = place.split(":")
        command = getattr(importlib.import_module(f"chimeralab.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about, _) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="chimera")
def cli() -> None:
    """Measure how language models fall into loops.

    Start with `chimera detect PATH`, where PATH is a log of conversations or a folder of them.
    """


def main() -> None:
    """Run, and exit with 0 (ok), 1 (a check failed), 2 (bad input), or as if a signal had come."""
    if "numpy" not in sys.modules:
        limit_blas_threads()
    # Words make many small objects and no rings; to look for some often takes a fifth of the time.
    gc.set_threshold(50_000, 20, 20)
    if isinstance(sys.stdout, io.TextIOWrapper):  # which may be unable to show every character
        sys.stdout.reconfigure(errors="replace")
    try:
        code = cli.main(standalone_mode=False) or 0
        sys.stdout.flush()  # here, where a reader that went away is still noticed
        sys.exit(code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _give_up("stopped", INTERRUPTED)
    except (ReaderGone, BrokenPipeError):
        # The reader of our output went away (`| head`): nothing more to say, nor to flush. That is
        # no failed check, so the code is the one of a program that SIGPIPE has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except (ChimeraError, ModuleNotFoundError, OSError, MemoryError) as error:
        _give_up(describe_error(error), 2)


def describe_error(error: Exception) -> str:
    """What the user is told about a problem of theirs; what is ours is raised again."""
    match error:
        case ModuleNotFoundError():
            missing = missing_extra(error)
            if missing is None:
                raise error
            return str(missing)
        case OSError():
            place = f"{error.filename} can't be used" if error.filename else "the system refused"
            return f"{place} ({error.strerror or error})"
        case MemoryError():
            return "there is not enough memory for this"
    return str(error)


def limit_blas_threads() -> None:
    """The encoder spreads texts over the cores; threads of BLAS below them only get in the way.

    BLAS reads this once, when numpy is imported, and what the user has set stays.
    """
    for name in ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def _give_up(message: str, code: int) -> None:
    print(f"chimera: {message}", file=sys.stderr)
    sys.exit(code)
