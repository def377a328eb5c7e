"""The seed prompts of a study: read from a file or from the plan itself, each with its own id."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.parts import read_record, read_value
from chimeralab.runner import Prompt
from chimeralab.study.sections import Name, PromptTable


class _Entry(NamedTuple):
    place: str
    value: Any


def read_prompts(table: PromptTable, folder: Path) -> tuple[Prompt, ...]:
    """All prompts, in order."""
    if (table.file is None) == (table.items is None):
        raise InputError("[prompts] needs either a file or a list of items, and not both")
    if table.file is not None:
        entries: Iterable[_Entry] = _lines(folder / table.file)
    else:
        items = enumerate(table.items or (), start=1)
        entries = (_Entry(f"[prompts] items[{n}]", item) for n, item in items)
    return _unique(entries)


def _unique(entries: Iterable[_Entry]) -> tuple[Prompt, ...]:
    prompts: dict[str, Prompt] = {}
    for place, value in entries:
        prompt = read_record(Prompt, value, place)
        read_value(Name, prompt.id, f"{place} id")
        if not prompt.text.strip():
            raise InputError(f"{place}: prompt {prompt.id!r} has no text")
        if prompt.id in prompts:
            raise InputError(f"{place}: there are two prompts with the id {prompt.id!r}")
        prompts[prompt.id] = prompt
    if not prompts:
        raise InputError("[prompts] holds no prompt; a study needs at least one")
    return tuple(prompts.values())


def _lines(path: Path) -> Iterator[_Entry]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"[prompts] file: {path} can't be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"[prompts] file: {path} is not UTF-8 text") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _Entry(f"{path.name}, line {number}", _json(line, path, number))


def _json(line: str, path: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name}, line {number}: no JSON ({error.msg})") from error
