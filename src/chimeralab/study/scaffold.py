"""A new study from a template: a commented plan and its prompts."""

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.parts import choose

_NAME = "@NAME@"


def templates() -> dict[str, Traversable]:
    """The templates there are, by name."""
    root = files("chimeralab.study") / "templates"
    return {item.name: item for item in sorted(root.iterdir(), key=lambda item: item.name)}


def new_study(path: Path, template: str) -> tuple[Path, ...]:
    """Write the files of a new study. What is there already is never overwritten."""
    choose(template, templates(), f"template {template!r}")
    sources = list(templates()[template].iterdir())
    for source in sources:
        if (path / source.name).exists():
            raise InputError(f"{path / source.name} is there already; choose another folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} can't be made ({error.strerror})") from error
    name = json.dumps(path.resolve().name, ensure_ascii=False)
    return tuple(_write(source, path, name) for source in sources)


def _write(source: Traversable, folder: Path, name: str) -> Path:
    path = folder / source.name
    with replacing(path) as part:
        part.write_text(source.read_text("utf-8").replace(_NAME, name), encoding="utf-8")
    return path
