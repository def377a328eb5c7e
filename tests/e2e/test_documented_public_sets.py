"""The plans that the page on scenarios prints for public sets, on the sets themselves."""

import re
from pathlib import Path

import pytest

from chimeralab.study import Study

DATA = Path(__file__).parents[2].parent / "shared" / "data"
DOC = Path(__file__).parents[2] / "docs" / "scenarios.md"
TABLES = re.findall(r"```toml\n(.+?)```", DOC.read_text(), re.DOTALL)
[HEAD] = [each for each in TABLES if each.startswith("[study]")]
EXAMPLES = [each for each in TABLES if each.startswith("[trial]")]


@pytest.mark.parametrize("use", ["benchform", "mt-consistency", "sycon"])
def test_documented_plan_of_each_public_set_is_valid(tmp_path, chimera, use):
    [tables] = [each for each in EXAMPLES if f'use = "{use}"' in each]
    if not DATA.exists():
        pytest.skip("the public sets are not at hand")
    (tmp_path / "plan.toml").write_text(HEAD + tables.replace('"data/', f'"{DATA.resolve()}/'))
    assert chimera("check", tmp_path).code == 0
    number = int(re.search(r"number = (\d+)", tables)[1])
    assert len(Study(tmp_path).plan.prompts) == number
