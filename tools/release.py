"""Build what is published, into `dist/`: source archive, wheel, bill of materials, checksums.

`python tools/release.py` needs nothing but pip: `build`, `twine` and `cyclonedx-bom` are installed
into an environment of their own. The bill of materials (CycloneDX) lists what an empty environment
has after the wheel is installed. Nothing is uploaded, and no tag is set.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ("build", "twine", "cyclonedx-bom")


def make_environment(place: Path, *requirements: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
    return python


def read_version() -> str:
    text = (ROOT / "src" / "chimeralab" / "version.py").read_text(encoding="utf-8")
    [version] = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(version)


def check_changelog(text: str, version: str) -> None:
    """Refuse a version without dated notes.

    >>> check_changelog("## 0.2.0 (2026-11-19)\\n", "0.2.0")
    """
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", text, re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has no dated notes for {version}")


def main() -> None:
    version = read_version()
    check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        tools = make_environment(Path(place, "tools"), *TOOLS)
        subprocess.run([tools, "-m", "build", "--outdir", DIST, ROOT], check=True)
        built = sorted(DIST.iterdir())
        subprocess.run([tools, "-m", "twine", "check", "--strict", *built], check=True)
        [wheel] = DIST.glob("*.whl")
        python = make_environment(Path(place, "empty"), str(wheel))
        subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "-y", "pip"], check=True)
        bill = DIST / f"chimera_lab-{version}.cdx.json"
        cyclonedx = [tools.with_name("cyclonedx-py"), "environment", python]
        cyclonedx += ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible"]
        subprocess.run([*cyclonedx, "--output-file", bill], check=True)
    names = {each["name"] for each in json.loads(bill.read_text(encoding="utf-8"))["components"]}
    print(f"{bill.name}: {len(names)} packages")
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in built]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print(*sums, sep="\n")


if __name__ == "__main__":
    main()
