"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks speed.guard`."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    for name in sys.argv[1:] or _all():
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


def _all() -> list[str]:
    found = pkgutil.walk_packages(benchmarks.__path__, "")
    return [m.name for m in found if "." in m.name and not m.ispkg]


if __name__ == "__main__":
    main()
