"""Self-contained HTML pages: sections of blocks, with log text escaped.

A block is rendered by the macro of its name in `templates/blocks.html`; figures, tables and other
records by the macro named after their class.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from chimeralab.core.numbers import (
    between,
    number,
    p_phrase,
    percent,
    plural,
    short_count,
    short_time,
)
from chimeralab.core.records import name_kind
from chimeralab.core.text import neutralize
from chimeralab.detection.cause import CAUSES
from chimeralab.version import __version__

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, *, pages: Environment | None = None, **content: Any) -> str:
    """Render a template; every value is neutralised and escaped unless it is `Markup`."""
    return (pages or _ENVIRONMENT).get_template(template).render(version=__version__, **content)


def render_macro(template: str, macro: str, *values: Any) -> Markup:
    """Render a macro of a template of pages."""
    found: Markup = getattr(_ENVIRONMENT.get_template(template).module, macro)(*values)
    return found


def strong(text: str, *, before: str = "", after: str = "") -> Markup:
    """Emphasise the middle of a text.

    >>> strong("<b>", before="Gate: ")
    Markup('Gate: <strong>&lt;b&gt;</strong>')
    """
    return Markup("{}<strong>{}</strong>{}").format(
        neutralize(before), neutralize(text), neutralize(after)
    )


def mark_code(text: str) -> Markup:
    """Set what stands between backticks as code, as terminals show it.

    >>> mark_code("<b> `chimera lock`")
    Markup('&lt;b&gt; <code>chimera lock</code>')
    """
    parts = neutralize(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if n % 2 else part for n, part in enumerate(parts))


# Anything with a macro in `blocks.html`.
Block = object


class TextBlock(NamedTuple):
    """A block of text: the macro that renders it, its content, and its CSS class (`look`)."""

    macro: str
    text: str = ""
    look: str = ""
    lines: Sequence[Any] = ()
    blocks: Sequence[Block] = ()


def paragraph(text: str, look: str = "") -> TextBlock:
    return TextBlock("paragraph", text, look)


def heading(text: str) -> TextBlock:
    """A heading within a section."""
    return TextBlock("heading", text)


def quote(text: str) -> TextBlock:
    """Quoted text, in either writing direction."""
    return TextBlock("quote", text)


def bullets(lines: Sequence[str], look: str = "") -> TextBlock:
    return TextBlock("bullets", look=look, lines=lines)


def box(blocks: Sequence[Block], look: str = "") -> TextBlock:
    """Highlighted blocks."""
    return TextBlock("box", look=look, blocks=blocks)


def details(summary: str, blocks: Sequence[Block], look: str = "numbers") -> TextBlock:
    """Collapsible blocks; those with the look `numbers` are expanded in print."""
    return TextBlock("details", summary, look, blocks=blocks)


# A term of a definition list, with its value as text or as a block.
Fact = tuple[str, str | TextBlock]


def definitions(facts: Iterable[Fact]) -> TextBlock:
    return TextBlock("definitions", lines=list(facts))


class Section(NamedTuple):
    """A part of a page under its own heading, linked from the table of contents."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    about: str = ""


Kind = TypeVar("Kind")


def find_blocks(kind: type[Kind], blocks: Iterable[Any]) -> Iterator[Kind]:
    """Find the blocks of one type, nested ones included, in page order."""
    for block in blocks:
        if isinstance(block, kind):
            yield block
        yield from find_blocks(kind, getattr(block, "blocks", ()))


def environment(*folders: Path) -> Environment:
    """Create a template environment that looks in these folders first, then in ours."""

    def finalize(value: Any) -> Any:
        if value is None:
            return ""
        return value if isinstance(value, Markup) else neutralize(str(value))

    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def show(block: Any) -> Any:
        macros = made.get_template("blocks.html").module
        name = block.macro if isinstance(block, TextBlock) else type(block).__name__
        return getattr(macros, name)(block)

    made.filters |= {"thousands": "{:,}".format, "code": mark_code}
    made.globals |= {
        "show": show,
        "plural": plural,
        "percent": percent,
        "p_phrase": p_phrase,
        "short_count": short_count,
        "short_time": short_time,
        "name_kind": name_kind,
        "causes": CAUSES,
    }
    return made


_ENVIRONMENT = environment()


def render_block(template: str, macro: str, **content: Any) -> TextBlock:
    """Render a macro of a template as one block, with its content for `find_blocks`."""
    html = getattr(_ENVIRONMENT.get_template(template).module, macro)(**content)
    values = (value if isinstance(value, list) else [value] for value in content.values())
    return TextBlock("html", html, blocks=[each for value in values for each in value])


def render_methods(template: str, **content: Any) -> TextBlock:
    """Render the methods of a study; `cite` in the template numbers the works it names.

    The references are the lines of the block inside.
    """
    works: dict[str, str] = tomllib.loads((TEMPLATES / "works.toml").read_text(encoding="utf-8"))
    cited: list[str] = []

    def cite(*names: str) -> str:
        cited.extend(name for name in names if name not in cited)
        return f"[{', '.join(str(cited.index(name) + 1) for name in names)}]"

    paragraphs = render_text(template, cite=cite, version=__version__, **content)
    references = bullets([works[name] for name in cited])
    return TextBlock("methods", lines=paragraphs, blocks=[references])


def render_text(template: str, **content: Any) -> list[str]:
    """Render a plain-text template whose paragraphs are separated by three dashes."""
    text = _TEXTS.get_template(template).render(content)
    return [_one_line(each) for each in re.split(r"(?m)^---$", text)]


def render_sentence(template: str, macro: str, **content: Any) -> str:
    """Render a macro of a plain-text template as one line."""
    return _one_line(str(getattr(_TEXTS.get_template(template).module, macro)(**content)))


def _one_line(text: str) -> str:
    return re.sub("[ \n]+", " ", text).strip(" ")


# Plain text: pages escape it when they show it.
_TEXTS = Environment(  # noqa: S701
    loader=FileSystemLoader(TEMPLATES),
    # A line break in a name would end a paragraph.
    finalize=lambda value: " ".join(value.split("\n")) if isinstance(value, str) else value,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEXTS.filters |= {"brief": lambda value: f"{value:g}", "thousands": "{:,}".format}
_TEXTS.globals |= {"plural": plural, "number": number, "between": between, "p_phrase": p_phrase}
