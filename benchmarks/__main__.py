"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks speed.guard`."""

import ast
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parent


def main() -> None:
    for name in sys.argv[1:] or all_benchmarks():
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


def all_benchmarks() -> list[str]:
    """The modules with a `main`. They are read, not imported: some need what is not installed."""
    return [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in sorted(ROOT.glob("*/*.py"))
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "main"
            for node in ast.parse(file.read_text(encoding="utf-8")).body
        )
    ]


if __name__ == "__main__":
    main()
