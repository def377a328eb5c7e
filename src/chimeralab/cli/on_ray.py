"""`chimera detect --engine ray`: logs of any number, on one machine or many."""

from typing import Any

import click

from chimeralab.cli.options import MOST_NAMED, Decorator, asked_judges
from chimeralab.cli.terminal import out, say
from chimeralab.core.errors import InputError
from chimeralab.core.extras import need
from chimeralab.core.numbers import counted
from chimeralab.detection.locked import Locked

RAY = "ray"
ENGINE_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--engine",
        type=click.Choice(["local", RAY]),
        default="local",
        show_default=True,
        help="Judge in this process, or on a cluster of Ray, which needs --out.",
    ),
    click.option(
        "--address",
        metavar="ADDRESS",
        help="With --engine ray: the cluster to use (auto, host:6379). Without it, one is "
        "started on this machine.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --engine ray: how many workers, of one core each. Default: one for each core.",
    ),
)
# What is for one process alone: its answers are printed, and a job's are in its folder.
NOT_ON_RAY = (
    "json", "trace", "group_by", "fail_on", "max_share", "junit", "fail_on_collapse", "cache",
)  # fmt: skip


def refuse_ray_options(options: dict[str, Any]) -> None:
    """Refuse options that would have no effect without Ray."""
    for name in ("address", "workers"):
        if options[name] is not None:
            raise InputError(f"--{name} is for jobs on Ray; add --engine ray, or leave it out")


def detect_on_ray(detector: Locked, options: dict[str, Any]) -> None:
    """Judge the logs into the folder of results, and say what became of them."""
    for name in NOT_ON_RAY:
        if options[name]:
            option = name.replace("_", "-")
            raise InputError(f"--engine ray writes its verdicts to --out; leave out --{option}")
    if not options["out"]:
        raise InputError("--engine ray needs --out, a folder or address for its results")
    need("ray")
    from chimeralab import scale  # noqa: PLC0415 - one process needs none of it

    judging = scale.WorkerSettings(
        *asked_judges(detector, options), options["speaker"], options["format"]
    )
    totals = scale.detect_files(
        options["paths"],
        options["out"],
        judging,
        address=options["address"],
        workers=options["workers"],
    )
    before = f" ({totals.judged_before:,} judged before)" if totals.judged_before else ""
    found = [f"{totals.looping:,} looping"] if judging.loops else []
    found += [f"{totals.collapsed:,} collapsed"] if judging.detector else []
    out.print(
        f"{counted(totals.conversations, 'conversation')} of {counted(totals.files, 'file')}"
        f"{before}: {', '.join(found)}.",
        soft_wrap=True,
    )
    out.print(f"Verdicts: {options['out'].rstrip('/')}/verdicts", markup=False, soft_wrap=True)
    for error in totals.first_errors[:MOST_NAMED]:
        say(f"skipped {error}")
    if totals.errors:
        reason = (
            f"{counted(totals.errors, 'bad entry', 'bad entries')} skipped, all of them in "
            f"{options['out'].rstrip('/')}/errors"
        )
        if not options["skip_bad"]:
            raise InputError(f"{reason}; --skip-bad allows that")
        say(reason)
