"""Self-contained pages from templates, in which the text of a log can do nothing but be read."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chimeralab.embedding.pieces import readable
from chimeralab.version import __version__

TEMPLATES = Path(__file__).parent / "templates"

_LINE_ENDS = dict.fromkeys((0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029), "\n")
_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\t"), ord("\n")}
# These turn the writing direction around, and could make a text read as another.
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SIGNS = {code: f"[U+{code:04X}]" for code in _CONTROLS | _TURNING} | _LINE_ENDS


def inert(text: str) -> str:
    """The text with every character that acts instead of being seen replaced by its name.

    >>> inert("\\x1b[31mred\\u202e\\r\\n")
    '[U+001B][31mred[U+202E]\\n'
    """
    return readable(text).replace("\r\n", "\n").translate(_SIGNS)


def render(template: str, **content: Any) -> str:
    """Fill a template. Every value is made inert and escaped, unless it is `Markup` of our own."""
    return _ENVIRONMENT.get_template(template).render(version=__version__, **content)


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, Markup) else inert(str(value))


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    finalize=_shown,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
