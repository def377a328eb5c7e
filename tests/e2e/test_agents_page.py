"""The worked example on the page about agents, from an empty folder to its report."""

import re
import runpy
from pathlib import Path

from chimeralab.study import Study
from chimeralab.trial.store import load_trials

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", PAGE, re.M | re.S))
EXAMPLE = SECTIONS["From nothing to the page"]


def block(name: str) -> str:
    """The code that follows the first mention of a file at the head of a paragraph."""
    after = EXAMPLE.split(f"\n`{name}` ", 1)[1]
    found = re.search(r"^```\w+\n(.+?)^```", after, re.M | re.S)
    assert found, name
    return found[1]


def test_worked_example_goes_from_nothing_to_the_page(tmp_path, chimera, monkeypatch):
    folder = tmp_path / "kitchen"
    folder.mkdir()
    [agent] = re.findall(r"^```python\n(.+?)^```", SECTIONS["A class of your own"], re.M | re.S)
    (folder / "my_agent.py").write_text(agent, encoding="utf-8")
    for name in ("questions.py", "my_stressor.py", "plan.toml"):
        (folder / name).write_text(block(name), encoding="utf-8")
    monkeypatch.chdir(folder)
    [commands] = re.findall(r"^```sh\n(.+?)^```", EXAMPLE, re.M | re.S)
    for line in commands.splitlines():
        program, *words = line.split("#")[0].split()
        if program == "python":
            runpy.run_path(words[0])
        elif program == "chimera":
            ran = chimera(*words)
            assert ran.code == 0, (line, ran.err)
    assert chimera("verify", ".").code == 0
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "a supervisor who expects a wrong answer" in page
    rows = list(load_trials(Study(folder)))

    def followed(arm: str) -> float:
        pushed = [row for row in rows if row.arm == arm and row.bias]
        return sum(row.response == row.signal for row in pushed) / len(pushed)

    assert followed("supervisor") == 0
    assert followed("amnesia+supervisor") > 0.3
    assert all(row.correct for row in rows if row.arm == "control")
    assert sum(not row.options for row in rows if row.arm == "control") == 6
