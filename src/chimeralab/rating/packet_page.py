"""The page of a packet: the rubric, the trajectories, and a form that fills the sheet."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from chimeralab.rating.packet_rows import check_of
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import Rubric

FOLDER = Path(__file__).with_name("templates")


def packet_page(name: str, sheets: Mapping[str, Item], rubric: Rubric) -> str:
    """One page that works offline. Texts are escaped, and no script but ours can run."""
    script = (FOLDER / "packet.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("packet.html").render(
        name=name,
        rubric=rubric,
        script=script,
        script_hash=f"sha256-{digest}",
        style=(FOLDER / "packet.css").read_text(encoding="utf-8"),
        sheets=[
            {"id": sheet, "check": check_of(sheet, item), "texts": _shown(item)}
            for sheet, item in sheets.items()
        ],
    )


def _shown(item: Item) -> list[str]:
    """The texts with what no page can hold replaced."""
    return [text.encode("utf-8", "replace").decode() for text in item.texts]
