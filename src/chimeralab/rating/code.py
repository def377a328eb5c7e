"""Code in a turn: operators count as words, and the names that it gives itself do not."""

import re

FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
CALL = re.compile(r"\w\(|\w\s=\s\S|\w=\w")
STATEMENT = re.compile(
    r"^\s*(?:(?:def|class|for|while|if|import|return|let|const|var|function|fn|func|public|private)"
    r"\b.*[:;(){}=]|[\w.]+(?:,\s*\w+)*\s*=\s*\S)",
    re.MULTILINE,
)
# A function or class, its parameters, a declared or assigned variable, a loop variable.
BINDINGS = (
    re.compile(r"\b(?:def|function|class|fn|func)\s+(\w+)"),
    re.compile(r"\b(?:def|function|fn|func)\b[^(\n]*\(([^)]*)\)"),
    re.compile(r"\b(?:let|const|var)\s+(\w+)"),
    re.compile(r"^\s*(\w+(?:\s*,\s*\w+)*)\s*=(?!=)", re.MULTILINE),
    re.compile(r"\bfor\s*\(?\s*(?:let|const|var|int)?\s*(\w+(?:\s*,\s*\w+)*)\s*(?:in|of|=)\b"),
    re.compile(r"\blambda\s+([\w\s,]+):"),
)
PARAMETER = re.compile(r"[A-Za-z_]\w*")
OPERATOR = re.compile(r"[-+*/%<>=!&|^~]+")
NAMES = {
    "-": "minus", "+": "plus", "*": "times", "/": "by", "%": "modulo", "<": "below", ">": "above",
    "=": "is", "!": "bang", "&": "both", "|": "either", "^": "caret", "~": "tilde",
}  # fmt: skip


def numbered_names(text: str) -> str | None:
    """The text with its operators spelled and its own names numbered in order of appearance.

    None when there is no code in it.

    >>> numbered_names("n = f(1)") == numbered_names("k = f(1)") != numbered_names("k = g(1)")
    True
    """
    if not has_code(text):
        return None
    own = {
        name: None
        for binding in BINDINGS
        for bound in binding.finditer(text)
        for name in PARAMETER.findall(bound[1])
    }
    if own:
        numbers: dict[str, str] = {}
        text = re.sub(
            rf"\b({'|'.join(own)})\b",
            lambda found: numbers.setdefault(found[1], f"name{len(numbers)}"),
            text,
        )
    return spelled_operators(text)


def has_code(text: str) -> bool:
    """True when the text holds a fenced block, or statements with calls or assignments.

    >>> has_code("for i in x:\\n    print(i)"), has_code("If you like (as I do): go!")
    (True, False)
    """
    if "```" in text:
        return True
    return STATEMENT.search(text) is not None and CALL.search(text) is not None


def spelled_operators(text: str) -> str:
    """Operators as words, which white space and punctuation are not; prose beside a block is left.

    >>> spelled_operators("a ** b")
    'a  timestimes  b'
    """
    if "```" not in text:
        return _spelled(text)
    return FENCED.sub(lambda block: f"\n{_spelled(block[1])}\n", text)


def _spelled(code: str) -> str:
    return OPERATOR.sub(lambda found: f" {''.join(NAMES[char] for char in found[0])} ", code)
