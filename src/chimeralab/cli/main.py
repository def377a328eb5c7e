"""The `chimera` command: lazy loading of subcommands, and one-line errors."""

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
from chimeralab.core.extras import missing_extra, require_extra
from chimeralab.core.parts import choose
from chimeralab.core.text import neutralize
from chimeralab.version import __version__

LAB = "lab"
MAX_LINE = 1_000
BROKEN_PIPE, INTERRUPTED = 128 + 13, 128 + 2
# For each section of the help: where its commands live, what they do, and the extra they need.
SECTIONS: dict[str, dict[str, tuple[str, str, str | None]]] = {
    "Logs": {
        "detect": ("detect:detect", "Find conversations that loop or collapse.", None),
        "explain": ("explain:explain", "Say why a conversation loops, or why not.", None),
        "view": ("pages:view", "Browse logs and follow studies in the browser.", LAB),
        "show": ("pages:show", "Write conversations as HTML pages.", LAB),
        "logs": ("logs:logs", "List the sessions of coding agents on this machine.", None),
    },
    "Guard": {
        "hook": ("hook:hook", "Keep an agent (Claude Code) from looping while it runs.", None),
        "mcp": ("mcp:mcp", "Serve detect and explain to agents, by MCP.", None),
    },
    "Studies": {
        "new": ("prepare:new", "Create a study: a commented plan and its prompts.", LAB),
        "check": ("prepare:check", "Validate a plan, estimate its cost, test its models.", LAB),
        "lock": ("prepare:lock", "Freeze a plan under a hash before the first run.", LAB),
        "run": ("run:run", "Run the planned conversations, or resume a stopped run.", LAB),
        "report": ("pages:report", "Write a study's report: page, figures and tables.", LAB),
        "branch": ("branch:branch", "Go on from a recorded loop: would a nudge end it?", LAB),
        "analyse": ("analyse:analyse_command", "Estimate effects with clustered intervals.", LAB),
        "export": ("export:export", "Export a study as tables, JSON Lines or a bundle.", LAB),
        "verify": ("export:verify", "Recompute a study's verdicts and check its hashes.", LAB),
    },
    "Raters": {
        "rate": ("rate:rate", "Label conversations by rules, by a model or by people.", None),
        "audit": ("audit:audit", "Measure how well raters agree, and check the gate.", None),
        "rubric": ("rate:rubric", "Show the rubric that raters follow, or lock your own.", None),
        "calibrate": ("rate:calibrate", "Compare raters on a practice set, lock the rubric.", LAB),
        "plan-ratings": ("audit:plan_ratings", "Calculate how many items raters must label.", None),
    },
    "More": {
        "config": ("project:config", "Show which settings are in force, and where from.", None),
        "formats": ("models:formats", "List the log formats that can be read.", None),
        "models": ("models:models", "List, download and verify model files.", None),
        "sweep": ("sweep:sweep", "Test how results depend on the detector's thresholds.", None),
        "compare": ("analyse:compare_command", "Compare two studies or tables of runs.", LAB),
        "measure": ("measure:measure_command", "Score trial logs from any source.", LAB),
        "claims": ("claims:claims", "Check the numbers and wording of a paper.", LAB),
    },
}
CONFIGURED = {"detect", "explain", "show", "view", "sweep"}
"""The commands whose options a project may set."""
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class SuggestingGroup(click.Group):
    """A group that answers an unknown command with the closest match and the full list."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click explains misplaced options, and shell completion must not fail.
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            choose(args[0], known, f"command {args[0]!r}")
        return super().resolve_command(ctx, args)


class ReaderGone(Exception):
    """A broken pipe, under another type, since click exits with 1 on the original error."""


@contextmanager
def catch_broken_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None


class LazyGroup(SuggestingGroup):
    """A group that imports a subcommand only when it is called, to keep start-up fast."""

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        with catch_broken_pipe():  # --help prints here
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with catch_broken_pipe():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        place, _, extra = COMMANDS[cmd_name]
        if extra:
            require_extra(extra)
        module, attribute = place.split(":")
        command = getattr(importlib.import_module(f"chimeralab.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", section[name][1]) for name in section])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="chimera")
@click.pass_context
def cli(context: click.Context) -> None:
    """Find out when language models talk in circles.

    To start, run `chimera detect --demo`, or `chimera detect PATH` on a log of conversations or a
    folder of logs. `chimera COMMAND --help` explains a command.
    """
    if context.invoked_subcommand in CONFIGURED:
        from chimeralab.cli.options import list_defaults  # noqa: PLC0415 - start-up time

        context.default_map = {str(context.invoked_subcommand): list_defaults()}


def main() -> None:
    """Run the command line.

    Exit codes: 0 success, 1 a check failed, 2 bad input, 130 interrupted, 141 broken pipe.
    """
    if "numpy" not in sys.modules:
        limit_blas_threads()
    # Tokenising allocates many small objects but no reference cycles; default thresholds cost 20 %.
    gc.set_threshold(50_000, 20, 20)
    if isinstance(sys.stdout, io.TextIOWrapper):  # its encoding may lack some characters
        sys.stdout.reconfigure(errors="replace")
    try:
        code = cli.main(standalone_mode=False) or 0
        sys.stdout.flush()  # while a broken pipe can still be caught
        sys.exit(code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _exit("stopped", INTERRUPTED)
    except (ReaderGone, BrokenPipeError):
        # As in `chimera … | head`. Exit as SIGPIPE would, with nothing left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except (ChimeraError, ModuleNotFoundError, OSError, MemoryError) as error:
        _exit(describe_error(error), 2)


def describe_error(error: Exception) -> str:
    """Describe an error that the user can fix, safe for a terminal; re-raise a bug."""
    said = str(error)
    match error:
        case ModuleNotFoundError():
            missing = missing_extra(error)
            if missing is None:
                raise error
            said = str(missing)
        case OSError():
            reason = error.strerror or str(error)
            said = f"{error.filename}: {reason}" if error.filename else f"system error: {reason}"
        case MemoryError():
            said = "out of memory"
    # A message may quote what a file says, which is untrusted and of any length.
    lines = (f"{line[:MAX_LINE]}{'…' * (len(line) > MAX_LINE)}" for line in said.split("\n"))
    return neutralize("\n".join(lines))


def limit_blas_threads() -> None:
    """Give BLAS one thread, unless the user has set a number: the encoder itself uses all cores.

    BLAS reads the variables once, when numpy is imported.
    """
    for name in ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")


def _exit(message: str, code: int) -> None:
    print(f"chimera: {message}", file=sys.stderr)
    sys.exit(code)
