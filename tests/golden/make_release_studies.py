"""Make the studies that tests keep of a release.

`python -m tests.golden.make_release_studies FOLDER`
Once per minor version, when it is released: from then on they are never made again.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from chimeralab.study import Study
from tests.studies import take_step

PLANS = Path(__file__).absolute().parent / "release"
STEPS = {
    "selfplay": ("lock", "run", "detect", "rate rules", "label human:ann loops"),
    "trial": ("lock", "run"),
}
# What is kept of the commands' output, to compare with.
COMMANDS = {"selfplay": ("audit", "analyse"), "trial": ("analyse", "measure --by arm")}
DATE = (1980, 1, 1, 0, 0, 0)


def make(name: str) -> None:
    """Make a study in the working directory, record what commands say of it, and zip it."""
    study = Path(name)
    study.mkdir()
    shutil.copy(PLANS / f"{name}.toml", study / "plan.toml")
    for step in STEPS[name]:
        take_step(Study(study), step)
    (study / "recorded").mkdir()
    for command in COMMANDS[name]:
        first, *options = command.split()
        said = ask(first, str(study), *options, "--json")
        (study / "recorded" / f"{first}.json").write_text(said, encoding="utf-8")
    verified = json.loads(ask("verify", str(study), "--json"))
    assert not verified["findings"], verified
    with zipfile.ZipFile(f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as kept:
        for file in sorted(study.rglob("*")):
            if file.is_file() and not file.name.endswith(("-wal", "-shm")):
                info = zipfile.ZipInfo(file.as_posix(), DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                kept.writestr(info, file.read_bytes())
    shutil.rmtree(study)


def ask(*command: str) -> str:
    chimera = [sys.executable, "-m", "chimeralab", *command]
    done = subprocess.run(chimera, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: a gate says no
    return done.stdout


def main() -> None:
    target = Path(sys.argv[1]).absolute()
    platform.node = lambda: "example"  # no name of a machine, and no path of one
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for name in STEPS:
            make(name)
            shutil.move(f"{name}.zip", target / f"{name}.zip")
        os.chdir(target)


if __name__ == "__main__":
    main()
