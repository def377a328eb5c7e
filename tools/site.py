"""What `mkdocs build` adds to `docs/`: linked files outside of it, the reference and `llms.txt`.

Named under `hooks` in mkdocs.yml.
"""

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import chimeralab
from chimeralab import ext

ROOT = Path(__file__).parents[1]
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)")
IN_DOCS = re.compile(r"\]\(docs/([^)\s]+)")
LISTED = re.compile(r"\]\(docs/([\w-]+)\.md\)")
DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
INTRODUCTION = """# Reference

Generated from the docstrings. What is not here is private and [may change](stability.md). Import
from `chimeralab` what is listed first; parts of your own import everything from
[`chimeralab.ext`](extending.md).
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the reference, and whatever pages link to outside of `docs/`."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - the reference is made without it

    for page in sorted((ROOT / "docs").glob("*.md")):
        for path in OUTSIDE.findall(page.read_text(encoding="utf-8")):
            if files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "reference.md", content="\n".join(reference())))
    llms = (ROOT / "llms.txt").read_text(encoding="utf-8")
    files.append(File.generated(config, "llms.txt", content=LISTED.sub(r"](\1.html)", llms)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links between `docs/` and the files that were added to where they are in the site."""
    return IN_DOCS.sub(r"](\1", OUTSIDE.sub(r"](\1", markdown))


def reference() -> Iterator[str]:
    """Describe every public name, as Markdown."""
    yield INTRODUCTION
    own = [name for name in chimeralab.__all__ if not name.startswith("_")]
    for module, names in ((chimeralab, own), (ext, sorted(set(ext.__all__) - set(own)))):
        yield f"## {module.__name__}\n"
        for name in sorted(names, key=str.casefold):
            yield from _describe(name, getattr(module, name), "###")


def _describe(name: str, what: Any, heading: str) -> Iterator[str]:
    yield f"{heading} {name}\n"
    if not callable(what):
        yield f"```python\n{what!r}\n```\n"
        return
    with suppress(ValueError):  # some built-in bases have no signature
        yield f"```python\n{name.rpartition('.')[2]}{inspect.signature(what)}\n```\n"
    text = inspect.getdoc(what) or ""
    if not text.startswith(f"{name}("):  # what a dataclass without a docstring says
        yield DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text) + "\n"
    if inspect.isclass(what):
        for own, member in sorted(vars(what).items()):
            if inspect.isfunction(member) and not own.startswith("_") and member.__doc__:
                yield from _describe(f"{name}.{own}", member, "####")
