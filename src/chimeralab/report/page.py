"""Self-contained pages: sections made of blocks, in which a log's text can only be read.

A block is a record that has a macro under the name of its class in `templates/blocks.html`.
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


# Anything that has a macro of its own in the template of blocks.
Block = object


class Paragraph(NamedTuple):
    """A paragraph. `look` is a class of the style sheet."""

    text: str
    look: str = ""


class Heading(NamedTuple):
    """A heading within a section."""

    text: str


class Bullets(NamedTuple):
    """A list of short texts."""

    lines: Sequence[str]
    look: str = ""


class Quote(NamedTuple):
    """Words of others, in whichever direction they are written."""

    text: str


class Box(NamedTuple):
    """Blocks that stand out from the others."""

    blocks: Sequence[Block]
    look: str = ""


class Folded(NamedTuple):
    """Blocks behind a line that opens them; those with the look `numbers` are open in print."""

    summary: str
    blocks: Sequence[Block]
    look: str = "numbers"


class Article(NamedTuple):
    """Blocks about one thing among several of its kind."""

    anchor: str
    title: str
    about: str
    blocks: Sequence[Block]


class HeadFact(NamedTuple):
    """A line of a page's head: a term, what there is to say of it, and more if need be."""

    term: str
    value: str
    blocks: Sequence[Block] = ()


class Facts(NamedTuple):
    """Terms with their values."""

    facts: Sequence[HeadFact]


class Section(NamedTuple):
    """A part of a page under its own heading, which the contents link to."""

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

    def show(block: Block) -> Any:
        """The markup of a block."""
        macros = made.get_template("blocks.html").module
        return getattr(macros, type(block).__name__)(block)

    made.globals |= {"show": show, "counted": counted}
    return made


_ENVIRONMENT = environment()
