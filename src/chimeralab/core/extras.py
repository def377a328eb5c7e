"""What a light install leaves out, and which extra brings it."""

from importlib.util import find_spec

from chimeralab.core.errors import InputError

EXTRAS = {
    "lab": (
        "altair",
        "httpx",
        "jinja2",
        "markupsafe",
        "openai",
        "openvino",
        "openvino_genai",
        "scipy",
        "starlette",
        "uvicorn",
        "vl_convert",
    ),
    "parquet": ("pyarrow",),
    "pandas": ("pandas",),
    "inspect": ("inspect_ai",),
}
PURPOSES = {
    "lab": "studies, analyses, reports and pages",
    "parquet": "Parquet files",
    "pandas": "pandas frames",
    "inspect": "models and agents of Inspect",
}


class MissingExtra(InputError):
    """Something was asked for that this install leaves out."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(
            f"{PURPOSES[extra]} need more than the light install ({module} is missing);"
            f' get it with: pip install "chimera-lab[{extra}]"'
        )


def need(extra: str) -> None:
    """Refuse to begin what would fail later for lack of an extra; nothing is imported."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtra(extra, module)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """What to tell the user about a module that is not there; None where no extra brings it.

    >>> str(missing_extra(ModuleNotFoundError("gone", name="scipy.special"))).rpartition(": ")[2]
    'pip install "chimera-lab[lab]"'
    """
    module = (error.name or "").partition(".")[0]
    found = (extra for extra, modules in EXTRAS.items() if module in modules)
    return next((MissingExtra(extra, module) for extra in found), None)
