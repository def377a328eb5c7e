"""What a newcomer does, on each Python that is here: install the wheel, then follow the README.

`python tools/newcomer.py [--short] [PYTHON ...]` builds the wheel and, for each Python, installs it
into an empty environment, runs `chimera-lab detect --demo`, and then the README's shell commands in
order, in a folder with two logs and an empty home. With the first Python it also runs `action.yml`,
and the pre-commit hook by `pre-commit`. A command must exit with 0, or 1 if its comment says so.
With `--short`, conversations of the study have four turns, for a slow or busy machine.
"""

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MINORS = range(11, 15)
COMMAND = re.compile(r"^\$ (.+?)(?:\s{2,}# (.*))?$", re.MULTILINE)
SERVES, FAILS = "Ctrl-C ends it", "exit code 1"
HOOKS = """repos:
  - repo: {repo}
    rev: {rev}
    hooks: [{{id: chimera-detect}}]
"""


def list_commands(page: str) -> list[tuple[str, str]]:
    """The shell commands of a page, in order, each with its comment.

    >>> list_commands("```console\\n$ ls logs/   # what is there\\n```\\n")
    [('ls logs/', 'what is there')]
    """
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [found for block in blocks for found in COMMAND.findall(block)]


def find_pythons() -> Iterator[str]:
    """One interpreter of each version that can run here."""
    for minor in MINORS:
        name = f"python3.{minor}"
        versions = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for python in filter(None, (shutil.which(name), *map(str, versions))):
            if subprocess.run([python, "-V"], capture_output=True, check=False).returncode == 0:
                yield python
                break
        else:
            print(f"-- no {name} here", flush=True)


def build_wheel(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, str(folder), str(ROOT)], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


class Newcomer:
    """Somebody with a Python, an empty home and a folder of logs."""

    def __init__(self, python: str, wheel: Path, folder: Path, models: Path) -> None:
        self.home, self.failures = folder, list[str]()
        self.work = folder / "work"
        (self.work / "logs").mkdir(parents=True)
        talks = (ROOT / "examples" / "conversations.jsonl").read_text(encoding="utf-8")
        log = talks.replace('"verbatim-loop"', '"run-17"')
        (self.work / "logs" / "run.jsonl").write_text(log, encoding="utf-8")
        shutil.copy(ROOT / "examples" / "agent-chat.jsonl", self.work / "logs")
        self.bin = self._make_environment(python)
        kept = ("PIP_", "SSL_", "LANG", "TERM", "http", "HTTP", "no_proxy", "NO_PROXY")
        self.environ = {name: text for name, text in os.environ.items() if name.startswith(kept)}
        links = (str(wheel.parent), os.environ.get("PIP_FIND_LINKS", ""))
        self.environ |= {
            "HOME": str(folder),
            "PATH": f"{self.bin}{os.pathsep}{os.defpath}",
            "PIP_FIND_LINKS": " ".join(
                links
            ).strip(),  # where `pip install chimera-lab` looks first
            "XDG_CACHE_HOME": str(models),
        }

    def _make_environment(self, python: str) -> Path:
        place = self.home / "env"
        made = subprocess.run([python, "-m", "venv", place], capture_output=True, check=False)
        if made.returncode:  # Debian keeps pip apart
            shutil.rmtree(place)
            subprocess.run([python, "-m", "venv", "--without-pip", place], check=True)
            pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
            subprocess.run([*pip, "install", "--quiet", "pip"], check=True)
        return place / "bin"

    def run(self, command: str, expected: int = 0) -> None:
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.work, env=self.environ, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode != expected or "Traceback" in done.stderr:
            self.failures.append(command)
            print(done.stdout, done.stderr, f"-- exit code {done.returncode}", sep="\n", flush=True)

    def visit(self, command: str) -> None:
        """Open what a command serves, and end it with Ctrl-C."""
        print(f"$ {command}", flush=True)
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command} --no-open --port 0"], cwd=self.work, env=self.environ,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            with urllib.request.urlopen(url) as page:  # noqa: S310 - our own server
                found = page.status == 200 and "Chimera Lab" in page.read().decode()
        except (OSError, ValueError) as error:
            print(url, error)
            found = False
        process.send_signal(signal.SIGINT)
        process.communicate()
        if not found:
            self.failures.append(command)

    def follow(self, page: str, *, short: bool) -> None:
        for command, comment in list_commands(page):
            if SERVES in comment:
                self.visit(command)
            else:
                self.run(command, int(FAILS in comment))
            if short and command.startswith("chimera new "):
                plan = self.work / "my-study" / "plan.toml"
                text = plan.read_text(encoding="utf-8")
                plan.write_text(re.sub(r"^turns = \d+", "turns = 4", text, flags=re.MULTILINE))


def try_action(person: Newcomer) -> None:
    """Run the steps of the action, which install the package from this folder."""
    run = runpy.run_path(str(ROOT / "tools" / "action.py"))["run_action"]
    os.chdir(person.work)
    done = run({}, person.environ)
    print("$ action.yml, step by step:", done.stderr, sep="\n", flush=True)
    if done.returncode != 1 or done.stderr.count("::error file=logs/") != 7:
        person.failures.append("action.yml")


def try_hook(person: Newcomer, folder: Path) -> None:
    """Commit a log that loops, and one that does not, where pre-commit runs the hook."""
    person.run("pip install --quiet pre-commit")
    rev = subprocess.check_output(["git", "-C", ROOT, "rev-parse", "HEAD"], text=True).strip()
    git = {f"GIT_{who}_{what}": "n@example.com" for who in ("AUTHOR", "COMMITTER")
           for what in ("NAME", "EMAIL")}  # fmt: skip
    person.environ |= git
    project = person.work = folder / "project"
    project.mkdir()
    hooks = HOOKS.format(repo=ROOT, rev=rev)
    (project / ".pre-commit-config.yaml").write_text(hooks, encoding="utf-8")
    person.run("git init -q && pre-commit install && git add . && git commit -qm hooks")
    turns = {"well": ["The ferry sails at noon.", "Whales sleep upright.", "Rust is red."],
             "loops": ["Let me check that again."] * 6}  # fmt: skip
    for name, said in turns.items():
        line = json.dumps({"id": name, "turns": said}) + "\n"
        (project / f"{name}.jsonl").write_text(line, encoding="utf-8")
        person.run(f"git add {name}.jsonl && git commit -qm {name}", int(name == "loops"))


def main() -> None:
    short = "--short" in sys.argv
    pythons = [each for each in sys.argv[1:] if each != "--short"] or list(find_pythons())
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    failures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="newcomer-") as place:
        folder = Path(place)
        wheel = build_wheel(folder / "dist")
        for number, python in enumerate(pythons):
            version = subprocess.check_output([python, "-V"], text=True).strip()
            print(f"== {version}: {wheel.name}", flush=True)
            person = Newcomer(python, wheel, folder / f"home-{number}", folder / "models")
            person.run("pip install --quiet chimera-lab")
            person.run("chimera-lab detect --demo")
            person.follow(page, short=short)
            if not number:
                try_action(person)
                try_hook(person, folder)
            failures[version] = person.failures
            shutil.rmtree(person.home)
    for version, commands in failures.items():
        print(f"{version}: {'; '.join(commands) or 'all of it works'}")
    sys.exit(any(failures.values()))


if __name__ == "__main__":
    main()
