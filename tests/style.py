"""Names and English that the house style rules out, in source, templates, tests and docs.

`python tests/style.py [PATH ...]` lists them; `tests/unit/test_style.py` keeps the list empty.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# The rubric is locked to the byte, the texts of the loop zoo and the sentences of the winding head
# are stimuli, and `wording.toml` lists words of subjects. The last two are this file and its test,
# which quote what they rule out.
FIXED = {
    *("rubric.toml", "rubric-4.toml", "texts.toml", "winding_sentences.toml", "wording.toml"),
    *("style.py", "test_style.py"),
}
SUFFIXES = {".py", ".html", ".md", ".toml", ".txt", ".js", ".css", ".c"}
PLACES = "src tests docs benchmarks examples studies README.md CONTRIBUTING.md CHANGELOG.md".split()

IRREGULAR = set(
    """told said held sent given taken made found kept met written drawn shown known seen heard
    meant paid built bought brought caught chosen done driven fallen felt forgotten gone grown
    hidden laid led lent lost sold shut spent stood struck taught thought thrown understood
    won begun bound dealt fed frozen proven sought shot spoken stuck swept
    undone withdrawn""".split()
)
NOT_PARTICIPLES = set("need seed feed bed red speed embed shed exceed proceed succeed".split())
# Adjectives of terms in statistics and software: `restricted_mean` is the name of the thing.
TERMS = set("restricted expected weighted clustered".split())
# Documented before the rule: `chimeralab.integrations.inspect.guarded`.
TERMS |= {"guarded"}
# Properties whose names are keys of verdicts and locks.
STORED = set("changed".split())
FURNITURE = set("desk seat room door shelf drawer cupboard".split())
EXTREMES = re.compile(r"^_?(MOST|LARGEST|FEWEST|LEAST|LONGEST|HIGHEST|SMALLEST|SHORTEST|LOWEST)_")

# What a native engineer would write otherwise, and how.
ENGLISH = {
    r"(?<!there )\b(?:is|are|was|were) no\b(?! (?:longer|more)\b|\.)": "is not",
    r"(?<!there)_(?:is|are|was|were)_no_(?!longer)": "is_not",
    r"\bso many\b": "n",
    r"\b(?:tells?|told|telling) of\b": "report",
    r"\bh(?:o|e)lds? to\b": "constrain",
    r"\bbeside\b": "next to, with, alongside",
    r"\banew\b": "again",
    r"\bin vain\b": "without success; rejected",
    r"\b(?:in|out of) sight\b": "found, not found",
    r"\bbe had\b": "be obtained; is available",
    r"\b(?:what|where) there is to\b": "name the thing",
    r"\bwhat you have put\b": "name the thing",
    r"\btwo things\b": "can't be combined",
    r"\bblott?e?d? out\b": "redacted",
    r"\basked aside\b": "probed",
    r"\b(?:greets?|mended|hangs? on|until it sits)\b": "plain words",
    r"\b(?:after Holm|(?:an|one) arm a value)\b": "Holm-corrected; one arm per value",
    r"\bturned down\b": "rejected",
    r"\bby heart\b": "memorised",
    r"\bnot? at all events\b": "say it plainly",
}
PATTERNS = [(re.compile(pattern, re.I), better) for pattern, better in ENGLISH.items()]


class Finding(NamedTuple):
    """One place, what stands there, and what would be better."""

    path: str
    line: int
    text: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text} -> {self.better}"


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def is_participle(word: str) -> bool:
    return (word.endswith("ed") and word not in NOT_PARTICIPLES) or word in IRREGULAR


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    decorators = [ast.unparse(each) for each in node.decorator_list]
    if node.returns is not None and ast.unparse(node.returns) == "bool":
        return None
    words = words_of(node.name)
    if not words or words[0] == "test":
        return None
    if any("property" in each for each in decorators):
        stored = node.name in STORED
        bare = len(words) == 1 and is_participle(words[0]) and not stored
        return "a property is a noun" if bare else None
    if is_participle(words[0]) and words[0] not in TERMS:
        return "a function is a verb"
    if len(words) > 1 and words[0] in {"as", "is", "not", "first"} and is_participle(words[-1]):
        return "a function is a verb"
    return None


def bad_names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            words = words_of(node.name)
            if len(words) == 1 and is_participle(words[0]):
                yield node.lineno, f"class {node.name}", "a record is a noun"
            if FURNITURE & set(words):
                yield node.lineno, f"class {node.name}", "no furniture"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if better := _of_function(node):
                yield node.lineno, f"def {node.name}", better
            if FURNITURE & set(words_of(node.name)) and not node.name.startswith("test_"):
                yield node.lineno, f"def {node.name}", "no furniture"
        elif (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and EXTREMES.match(node.id)
        ):
            yield node.lineno, node.id, "MAX_ or MIN_"


def findings(path: Path) -> Iterator[Finding]:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and path.is_relative_to(ROOT / "src"):
        for line, what, better in bad_names(ast.parse(text)):
            yield Finding(name, line, what, better)
    for number, written in enumerate(text.splitlines(), 1):
        for pattern, better in PATTERNS:
            for match in pattern.finditer(written):
                yield Finding(
                    name, number, f"{match.group()!r} in {written.strip()[:100]!r}", better
                )


def files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.suffix in SUFFIXES and path.name not in FIXED and "golden" not in path.parts:
                yield path


if __name__ == "__main__":
    chosen = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT / each for each in PLACES]
    found = [finding for path in files(chosen) for finding in findings(path)]
    print(*found, sep="\n")
    print(f"{len(found)} findings")
    sys.exit(bool(found))
