"""Run `action.yml` as a runner would: its steps as they are written, in order.

`python tools/action.py [--skip-install] [NAME=VALUE ...]` takes inputs. Steps that use another
action are named and left out, and so is the step that installs, with --skip-install.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
EXPRESSION = re.compile(r"\$\{\{\s*inputs\.([\w-]+)\s*\}\}")
# As GitHub starts bash for a step.
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]


def run_action(
    given: Mapping[str, str], environ: Mapping[str, str], *, install: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run the steps until one fails; return the last one, with what all of them printed."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    unknown = set(given) - set(action["inputs"])
    if unknown:
        raise SystemExit(f"unknown inputs: {', '.join(sorted(unknown))}")
    inputs = {name: given.get(name, each["default"]) for name, each in action["inputs"].items()}

    def fill(text: Any) -> str:
        filled = EXPRESSION.sub(lambda found: inputs[found[1]], str(text))
        assert "${{" not in filled, f"an expression that is not known here: {filled}"
        return filled

    out, err, code = "", "", 0
    for step in action["runs"]["steps"]:
        if "uses" in step or (step["name"].startswith("Install") and not install):
            err += f"left out: {step['name']}\n"
            continue
        assert step["shell"] == "bash"
        extra = {name: fill(value) for name, value in step.get("env", {}).items()}
        context = {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_ACTIONS": "true"}
        done = subprocess.run(
            [*BASH, fill(step["run"])],
            env={**environ, **context, **extra},
            capture_output=True,
            text=True,
            check=False,
        )
        out, err, code = out + done.stdout, err + done.stderr, done.returncode
        if code:
            break
    return subprocess.CompletedProcess("action.yml", code, out, err)


def main() -> None:
    arguments = sys.argv[1:]
    inputs = dict(each.split("=", 1) for each in arguments if not each.startswith("--"))
    done = run_action(inputs, os.environ, install="--skip-install" not in arguments)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
