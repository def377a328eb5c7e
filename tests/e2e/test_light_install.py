"""The light install: its commands need no extra, and the others say which one they need.

Here everything is installed that tests need, so what does not belong to the light install is hidden
from a process of its own. The slow test makes a fresh environment with nothing else in it.
"""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chimeralab.core.extras import extras

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOG = str(ROOT / "examples" / "conversations.jsonl")
RATINGS = "item,rater,label\na,x,1\na,y,1\nb,x,0\nb,y,0\nc,x,1\nc,y,0\nd,x,0\nd,y,0\n"
LARGEST_MB = 180
HOSTS = {
    "langchain": "langchain", "claude-agent-sdk": "claude_agent_sdk", "litellm": "litellm",
    "openai-agents": "openai_agents", "pydantic-ai": "pydantic_ai", "autogen": "autogen",
    "opentelemetry": "opentelemetry", "adk": "adk", "smolagents": "smolagents",
    "mcp": "mcp_server",
    "ag2": "ag2",
}  # fmt: skip
"""The extras of live guards, and the module of each in `chimeralab.integrations`."""
# A fresh environment must not see the sources that this process may have been pointed to.
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
# Runs commands one after another, and prints what became of each as a JSON line.
RUN = """
import contextlib, io, json, sys

class Hiding:
    def __init__(self, finders):
        self.finders = finders

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            return None
        found = (finder.find_spec(name, path, target) for finder in self.finders)
        return next((spec for spec in found if spec), None)

    def find_distributions(self, *asked):
        for finder in self.finders:
            if hasattr(finder, "find_distributions"):
                yield from finder.find_distributions(*asked)

hidden, commands = set(json.loads(sys.argv[1])), json.loads(sys.argv[2])
sys.meta_path[:] = [Hiding(sys.meta_path[:])]
from chimeralab.cli.main import main
for command in commands:
    sys.argv = ["chimera", *command]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
GUARD = """
from chimeralab import Guard
guard = Guard(vectors=False)
heard = [guard.update("The same words again and again, as ever before.") for _ in range(12)]
assert heard[-1].stop
"""


def light_modules() -> set[str]:
    """The top-level modules of what `pip install chimera-lab` brings, as far as installed here."""
    wanted, brought = [Requirement(each) for each in PROJECT["dependencies"]], set[str]()
    while wanted:
        each = wanted.pop()
        name = canonicalize_name(each.name)
        if name in brought or (each.marker and not each.marker.evaluate({"extra": ""})):
            continue
        brought.add(name)
        try:
            wanted += map(Requirement, requires(name) or ())
        except PackageNotFoundError:  # an optional part that is not here
            continue
    return {
        module
        for module, owners in packages_distributions().items()
        if brought & set(map(canonicalize_name, owners))
    }


def not_light() -> list[str]:
    """Every other module that is installed here."""
    return sorted(set(packages_distributions()) - light_modules() - {"chimeralab"})


def run(hidden: list[str], commands: list[list[str]], python: str = sys.executable) -> list[list]:
    done = subprocess.run(
        [python, "-c", RUN, json.dumps(hidden), json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        env=CLEAN if python != sys.executable else None,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def light_commands(folder: Path) -> list[list[str]]:
    ratings, own = folder / "ratings.csv", folder / "labels.csv"
    ratings.write_text(RATINGS, encoding="utf-8")
    return [
        ["--help"],
        ["detect", LOG, "--group-by", "condition"],
        ["detect", LOG, "--json", "--trace", "--out", str(folder / "turns.csv")],
        ["detect", LOG, "--no-vectors"],
        ["sweep", LOG],
        ["rate", LOG, "--out", str(own)],
        ["rubric", "show"],
        ["formats"],
        ["audit", str(ratings)],
        ["audit", "--table", "157", "7", "6", "10", "--record", str(folder / "record")],
        ["plan-ratings", "--kappa", "0.9", "--prevalence", "0.3"],
        ["hook", "claude-code", "--install", "--settings", str(folder / "settings.json")],
        ["models"],
        ["models", "verify", "minilm"],
    ]


@pytest.fixture
def study(tmp_path: Path) -> str:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "plan.toml").write_text("", encoding="utf-8")
    return str(folder)


@pytest.mark.weights
def test_commands_of_the_light_install_need_no_extra(tmp_path: Path) -> None:
    commands = light_commands(tmp_path)
    for command, (code, _, err) in zip(commands, run(not_light(), commands), strict=True):
        assert code == (1 if "--record" in command else 0), f"{command}: {err}"


def test_commands_that_need_more_name_the_extra(tmp_path: Path, study: str) -> None:
    new, table = str(tmp_path / "new"), str(tmp_path / "verdicts.parquet")
    log = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({"conversation": ["a"], "text": ["Hello."]}), log)
    commands = [
        ["new", new], ["check", study], ["lock", study], ["run", study], ["verify", study],
        ["report", study], ["export", study, "--to", new], ["analyse", study],
        ["compare", study, study], ["claims", study], ["measure", LOG], ["show", LOG],
        ["detect", study], ["rate", study], ["audit", study],
        ["detect", LOG, "--no-vectors", "--out", table], ["detect", log, "--no-vectors"],
    ]  # fmt: skip
    for command, (code, out, err) in zip(commands, run(not_light(), commands), strict=True):
        assert (code, out) == (2, ""), f"{command}: {err}"
        assert err.count("\n") == 1, command
        extra = "parquet" if {table, log} & set(command) else "lab"
        assert f'pip install "chimera-lab[{extra}]"' in err, f"{command}: {err}"
    assert not Path(new).exists()
    assert not Path(table).exists()


def test_every_extra_says_what_it_brings() -> None:
    modules = packages_distributions()
    for extra, named in extras().items():
        brought = {
            canonicalize_name(Requirement(each).name)
            for each in PROJECT["optional-dependencies"][extra]
        }
        # The hosts of live guards and Ray are not here; tests/integrations imports each by name.
        tops = [name.partition(".")[0] for name in named]
        owners = {canonicalize_name(owner) for top in tops for owner in modules.get(top, ())}
        assert brought <= owners or extra in (*HOSTS, "ray"), extra
    assert set(extras()) == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("extra", HOSTS)
def test_live_guard_without_its_host_names_the_extra(extra: str) -> None:
    hidden = json.dumps([each.partition(".")[0] for each in extras()[extra]])
    code = RUN + (
        "try:\n"
        f"    import chimeralab.integrations.{HOSTS[extra]}\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, hidden, "[]"], capture_output=True, text=True, check=True
    )
    assert f'pip install "chimera-lab[{extra}]"' in ran.stdout


def test_jobs_on_ray_without_it_name_the_extra(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    command = ["detect", LOG, "--engine", "ray", "--out", out]
    (code, said, err), (refused, _, why) = run(["ray"], [command, command[:-2]])
    assert (code, said) == (2, "")
    assert err == (
        "chimera: Ray jobs need an extra (ray is missing);"
        ' install it with: pip install "chimera-lab[ray]"\n'
    )
    assert not Path(out).exists()
    assert (refused, why.count("\n")) == (2, 1)
    assert "--engine ray needs --out" in why


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--address", "auto"], "--address needs --engine ray"),
        (["--engine", "ray", "--json"], "--json can't be combined with --engine ray"),
    ],
)
def test_options_without_effect_are_rejected(options: list[str], said: str, chimera) -> None:
    ran = chimera("detect", LOG, *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_package_imports_no_host() -> None:
    hosts = {each.partition(".")[0] for extra in HOSTS for each in extras()[extra]} - {"google"}
    code = (
        "import sys, chimeralab\n"
        "from chimeralab.integrations import claude_code, watch\n"
        "for name in chimeralab.__all__: getattr(chimeralab, name)\n"
        f"print(*{hosts} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_package_and_a_guard_by_words_load_no_numpy() -> None:
    code = "import chimeralab, sys; from chimeralab import Guard; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    hidden = json.dumps(["numpy", *not_light()])
    subprocess.run([sys.executable, "-c", RUN + GUARD, hidden, "[]"], check=True)


def test_commands_import_only_what_they_use() -> None:
    spared = {
        ("tokenizers", "sqlite3"): ["detect", LOG, "--no-vectors"],
        ("numpy", "asyncio", "ssl"): ["rate", LOG],
        ("numpy", "tokenizers", "pydantic"): ["models", "verify", "minilm"],
    }
    for modules, command in spared.items():
        ((code, _, err),) = run([*modules, *not_light()], [command])
        assert code == 0, f"{command}: {err}"


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.timeout(900)
def test_fresh_environment_with_the_light_install_alone(tmp_path: Path) -> None:
    place = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(place), "install", "--quiet"]
    subprocess.run([*pip, str(ROOT)], check=True)
    packages = Path(next(place.glob("[Ll]ib/**/site-packages")))
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) / 1e6
    print(f"site-packages of the light install: {size:.0f} MB")
    assert size < LARGEST_MB
    python = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    commands = light_commands(tmp_path)
    for command, (code, _, err) in zip(commands, run([], commands, python), strict=True):
        assert code == (1 if "--record" in command else 0), f"{command}: {err}"
    subprocess.run([python, "-c", RUN + GUARD, '["numpy"]', "[]"], check=True, env=CLEAN)
    subprocess.run([*pip, "pytest", "pytest-timeout", "hypothesis"], check=True)
    tests = [str(ROOT / "tests" / each) for each in ("unit/detection", "unit/readers")]
    pytest_alone = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run([*pytest_alone, *tests], check=True, env=CLEAN, cwd=ROOT)
