"""The methods of a study as paragraphs to paste into a paper, and the works that they cite."""

import re
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from chimeralab.core.numbers import between, counted, number
from chimeralab.report.page import TEMPLATES

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


def write_methods(template: str, **content: Any) -> Methods:
    """Fill a template of methods: `cite` in it numbers the works, three dashes end a paragraph."""
    references = References()
    text = _TEXTS.get_template(template).render(cite=references.cite, **content)
    paragraphs = [" ".join(lines.split("\n")).strip() for lines in re.split(r"\n---\n", text)]
    return Methods([re.sub(" {2,}", " ", each) for each in paragraphs], references.works)


def _one_line(value: object) -> object:
    """A name with a line break would end a paragraph."""
    return " ".join(value.split("\n")) if isinstance(value, str) else value


# Plain text: whoever shows it on a page escapes it there.
_TEXTS = Environment(  # noqa: S701
    loader=FileSystemLoader(TEMPLATES),
    finalize=_one_line,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEXTS.filters["brief"] = lambda value: f"{value:g}"
_TEXTS.globals |= {"counted": counted, "number": number, "between": between}
