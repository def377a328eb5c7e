"""The benchmarks are found, and only those."""

from benchmarks.__main__ import all_benchmarks


def test_every_module_with_a_main_is_a_benchmark() -> None:
    found = all_benchmarks()
    assert {"speed.guard", "speed.detect", "validity.recovery"} <= set(found)
    assert not {"speed.__init__", "validity.parameters", "__main__", "table"} & set(found)
