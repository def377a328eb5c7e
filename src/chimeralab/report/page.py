"""Self-contained pages: sections made of blocks, in which a log's text can only be read.

A block names its macro in `templates/blocks.html`; figures, tables and the like have one under the
name of their class.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chimeralab.core.numbers import between, counted, number
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


def details(summary: str, blocks: Sequence[Block], look: str = "numbers") -> TextBlock:
    """Blocks behind a line that opens them; those with the look `numbers` are open in print."""
    return TextBlock("details", summary, look, blocks=blocks)


# A line of a page's head: a term, and what there is to say of it, in words or as a block.
Fact = tuple[str, str | TextBlock]


def definitions(facts: Iterable[Fact]) -> TextBlock:
    """Terms with their values."""
    return TextBlock("definitions", lines=list(facts))


class Section(NamedTuple):
    """A part of a page under its own heading; the contents link to those of the whole page."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    about: str = ""


Kind = TypeVar("Kind")


def find_blocks(kind: type[Kind], blocks: Iterable[Any]) -> Iterator[Kind]:
    """All blocks of one kind, also those inside of others, in the order of the page."""
    for block in blocks:
        if isinstance(block, kind):
            yield block
        yield from find_blocks(kind, getattr(block, "blocks", ()))


def environment(*folders: Path) -> Environment:
    """Templates that share one look: ours, and those of the folders beside them."""

    def finalize(value: Any) -> Any:
        if value is None:
            return ""
        return value if isinstance(value, Markup) else inert(str(value))

    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        finalize=finalize,
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


# Works that the methods of a study may cite.
WORKS = {
    "consort": (
        "Schulz KF, Altman DG, Moher D. CONSORT 2010 Statement: updated guidelines for reporting "
        "parallel group randomised trials. BMJ 340 (2010), c332. doi:10.1136/bmj.c332"
    ),
    "sbert": (
        "Reimers N, Gurevych I. Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. "
        "EMNLP-IJCNLP (2019), 3982–3992. doi:10.18653/v1/D19-1410"
    ),
    "minilm": (
        "Wang W, Wei F, Dong L, Bao H, Yang N, Zhou M. MiniLM: Deep Self-Attention Distillation "
        "for Task-Agnostic Compression of Pre-Trained Transformers. NeurIPS 33 (2020), 5776–5788"
    ),
    "bootstrap": (
        "Field CA, Welsh AH. Bootstrapping clustered data. Journal of the Royal Statistical "
        "Society B 69 (2007), 369–390. doi:10.1111/j.1467-9868.2007.00593.x"
    ),
    "expanded": (
        "Hesterberg TC. What teachers should know about the bootstrap: resampling in the "
        "undergraduate statistics curriculum. The American Statistician 69 (2015), 371–386. "
        "doi:10.1080/00031305.2015.1089789"
    ),
    "holm": (
        "Holm S. A simple sequentially rejective multiple test procedure. Scandinavian Journal of "
        "Statistics 6 (1979), 65–70"
    ),
    "welch": (
        "Welch BL. The generalization of 'Student's' problem when several different population "
        "variances are involved. Biometrika 34 (1947), 28–35. doi:10.1093/biomet/34.1-2.28"
    ),
    "kaplan": (
        "Kaplan EL, Meier P. Nonparametric estimation from incomplete observations. Journal of the "
        "American Statistical Association 53 (1958), 457–481. doi:10.1080/01621459.1958.10501452"
    ),
    "rmst": (
        "Royston P, Parmar MKB. Restricted mean survival time: an alternative to the hazard ratio "
        "for the design and analysis of randomized trials with a time-to-event outcome. BMC "
        "Medical Research Methodology 13 (2013), 152. doi:10.1186/1471-2288-13-152"
    ),
    "pseudo": (
        "Andersen PK, Hansen MG, Klein JP. Regression analysis of restricted mean survival time "
        "based on pseudo-observations. Lifetime Data Analysis 10 (2004), 335–350. "
        "doi:10.1007/s10985-004-4771-0"
    ),
    "mantel": (
        "Mantel N. Evaluation of survival data and two new rank order statistics arising in its "
        "consideration. Cancer Chemotherapy Reports 50 (1966), 163–170"
    ),
    "curve": (
        "Simonsohn U, Simmons JP, Nelson LD. Specification curve analysis. Nature Human Behaviour "
        "4 (2020), 1208–1214. doi:10.1038/s41562-020-0912-z"
    ),
    "kappa": (
        "Cohen J. A coefficient of agreement for nominal scales. Educational and Psychological "
        "Measurement 20 (1960), 37–46. doi:10.1177/001316446002000104"
    ),
}


class References:
    """The works cited so far."""

    def __init__(self) -> None:
        self.cited: list[str] = []

    def cite(self, *names: str) -> str:
        """The numbers of these works, in brackets.

        >>> references = References()
        >>> references.cite("holm"), references.cite("kaplan", "holm")
        ('[1]', '[2, 1]')
        """
        self.cited += [name for name in names if name not in self.cited]
        return f"[{', '.join(str(self.cited.index(name) + 1) for name in names)}]"

    @property
    def works(self) -> list[str]:
        """The works by their numbers."""
        return [WORKS[name] for name in self.cited]


class Methods(NamedTuple):
    """Paragraphs of plain text, and the works that they cite."""

    paragraphs: list[str]
    references: list[str]


def render_methods(template: str, **content: Any) -> Methods:
    """Fill a template of methods; `cite` in it numbers the works."""
    references = References()
    paragraphs = render_text(template, cite=references.cite, **content)
    return Methods(paragraphs, references.works)


def render_text(template: str, **content: Any) -> list[str]:
    """The paragraphs of a template of plain text, which three dashes divide."""
    text = _TEXTS.get_template(template).render(content)
    paragraphs = [" ".join(lines.split("\n")).strip() for lines in re.split(r"\n---\n", text)]
    return [re.sub(" {2,}", " ", each) for each in paragraphs]


# Plain text: whoever shows it on a page escapes it there.
_TEXTS = Environment(  # noqa: S701
    loader=FileSystemLoader(TEMPLATES),
    # A name with a line break would end a paragraph.
    finalize=lambda value: " ".join(value.split("\n")) if isinstance(value, str) else value,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEXTS.filters["brief"] = lambda value: f"{value:g}"
_TEXTS.globals |= {"counted": counted, "number": number, "between": between}
