"""The numbers of a study as `result.json`, whose metrics the gates of research-scaffold compare.

Run it after `chimera report STUDY` (or with the folder of `chimera export`) and give the folder of
results of the phase:

    python scaffold_result.py STUDY/report experiment/results/pilot

A gate in `experiment.yaml` then names a number as in `numbers.json`:

    gates:
      - metric: kappaGate
        threshold: 0.8
        comparator: gte
"""

import json
import sys
from pathlib import Path


def write_result(source: Path, folder: Path) -> Path:
    """Write the numbers that a study has; a gate skips one without a value, it is never 0."""
    numbers = json.loads((source / "numbers.json").read_text(encoding="utf-8"))
    metrics = {
        name: each["value"]
        for name, each in numbers.items()
        if isinstance(each, dict) and each.get("value") is not None
    }
    artifacts = [source / name for name in ("numbers.json", "index.html")]
    result = {
        "metrics": metrics,
        "artifacts": [str(path) for path in artifacts if path.is_file()],
        "status": "success" if metrics else "failed",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "result.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python scaffold_result.py STUDY/report RESULTS_FOLDER")
    try:
        print(write_result(Path(sys.argv[1]), Path(sys.argv[2])))
    except (OSError, ValueError) as error:
        print(f"{sys.argv[1]}/numbers.json can't be read: {error}", file=sys.stderr)
        sys.exit(2)
