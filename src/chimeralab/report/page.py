"""Self-contained pages: sections made of blocks, in which a log's text can only be read.

A block names its macro in `templates/blocks.html`; figures, tables and the like have one under the
name of their class.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chimeralab.core.numbers import counted
from chimeralab.core.text import inert
from chimeralab.version import __version__

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, *, pages: Environment | None = None, **content: Any) -> str:
    """Fill a template. Every value is made inert and escaped, unless it is `Markup` of our own."""
    return (pages or _ENVIRONMENT).get_template(template).render(version=__version__, **content)


def strong(text: str, *, before: str = "", after: str = "") -> Markup:
    """A text whose middle stands out.

    >>> strong("<b>", before="Gate: ")
    Markup('Gate: <strong>&lt;b&gt;</strong>')
    """
    return Markup("{}<strong>{}</strong>{}").format(inert(before), inert(text), inert(after))


# Anything that has a macro in the template of blocks.
Block = object


class TextBlock(NamedTuple):
    """Words on a page: the macro that shows it, what it says, and what is in it.

    `look` is a class of the style sheet.
    """

    macro: str
    text: str = ""
    look: str = ""
    lines: Sequence[Any] = ()
    blocks: Sequence[Block] = ()


def paragraph(text: str, look: str = "") -> TextBlock:
    """A paragraph."""
    return TextBlock("paragraph", text, look)


def heading(text: str) -> TextBlock:
    """A heading within a section."""
    return TextBlock("heading", text)


def quote(text: str) -> TextBlock:
    """Words of others, in whichever direction they are written."""
    return TextBlock("quote", text)


def bullets(lines: Sequence[str], look: str = "") -> TextBlock:
    """A list of short texts."""
    return TextBlock("bullets", look=look, lines=lines)


def box(blocks: Sequence[Block], look: str = "") -> TextBlock:
    """Blocks that stand out from the others."""
    return TextBlock("box", look=look, blocks=blocks)


def folded(summary: str, blocks: Sequence[Block], look: str = "numbers") -> TextBlock:
    """Blocks behind a line that opens them; those with the look `numbers` are open in print."""
    return TextBlock("folded", summary, look, blocks=blocks)


class HeadFact(NamedTuple):
    """A line of a page's head: a term, what there is to say of it, and more if need be."""

    term: str
    value: str
    blocks: Sequence[Block] = ()


def definitions(facts: Iterable[HeadFact]) -> TextBlock:
    """Terms with their values."""
    return TextBlock("definitions", lines=list(facts))


class Section(NamedTuple):
    """A part of a page under its own heading; the contents link to those of the whole page."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    about: str = ""


Kind = TypeVar("Kind")


def every(kind: type[Kind], blocks: Iterable[Any]) -> Iterator[Kind]:
    """All blocks of one kind, also those inside of others, in the order of the page."""
    for block in blocks:
        if isinstance(block, kind):
            yield block
        yield from every(kind, getattr(block, "blocks", ()))


def _finalize(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, Markup) else inert(str(value))


def environment(*folders: Path) -> Environment:
    """Templates that share one look: ours, and those of the folders beside them."""
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def show(block: Any) -> Any:
        """The markup of a block."""
        macros = made.get_template("blocks.html").module
        name = block.macro if isinstance(block, TextBlock) else type(block).__name__
        return getattr(macros, name)(block)

    made.globals |= {"show": show, "counted": counted}
    return made


_ENVIRONMENT = environment()
