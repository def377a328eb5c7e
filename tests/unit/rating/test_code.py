"""Code in a turn: renamed names do not matter, operators and called functions do."""

import pytest

from chimeralab.rating.wording import has_code, normalize, number_names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("total = sum(xs)\nprint(total)", "s = sum(xs)\nprint(s)"),
        ("def f(a, b):\n    return a - b", "def g(x, y):\n    return x - y"),
        ("for (let i = 0; i < 9; i++) { go(i); }", "for (let k = 0; k < 9; k++) { go(k); }"),
        ("```js\nconst a = f(1)\n```", "```js\nconst b = f(1)\n```"),
        ("rows, names = load(path)\nshow(names)", "r, n = load(path)\nshow(n)"),
        ("key = lambda pair: pair[0]\nuse(key)", "first = lambda p: p[0]\nuse(first)"),
    ],
)
def test_renamed_variables_give_the_same_words(one: str, other: str) -> None:
    assert number_names(one) == number_names(other)
    assert normalize(one).words == normalize(other).words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = sin(x)", "y = cos(x)"),
        ("def f(a, b):\n    return a - b", "def f(a, b):\n    return a / b"),
        ("n = f(1)\nm = g(n, n)", "n = f(1)\nm = g(n, m)"),
        ("if x > y: stop(x)", "if x < y: stop(x)"),
    ],
)
def test_different_code_gives_different_words(one: str, other: str) -> None:
    assert number_names(one) != number_names(other)
    assert normalize(one).key != normalize(other).key


@pytest.mark.parametrize(
    "text",
    ["If you like (as I do): go!", "**Note:** 2 + 2 = 4", "For example, this: that.", "",
     "Class is over; return your books.", "Let us see (again)."],
)  # fmt: skip
def test_prose_is_not_detected_as_code(text: str) -> None:
    assert not has_code(text)
    assert number_names(text) is None


def test_layout_of_code_is_ignored() -> None:
    assert (
        normalize("let a = f(1);\nlet b = g(a);").key == normalize("let a=f( 1 ); let b=g(a)").key
    )
