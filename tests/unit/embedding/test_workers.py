"""Work one item ahead of whoever uses the results."""

from collections.abc import Iterator
from threading import Event, current_thread

import pytest

from chimeralab.embedding.workers import one_ahead

PATIENCE = 30


def test_the_first_result_waits_for_no_second_item() -> None:
    def items() -> Iterator[str]:
        yield "first"
        pytest.fail("asked for before the first was handed over")

    assert next(one_ahead(str.upper, items())) == ("first", "FIRST")


def test_the_next_item_is_worked_on_while_one_is_used() -> None:
    begun = {item: Event() for item in range(4)}

    def work(item: int) -> int:
        begun[item].set()
        return -item

    for item, made in one_ahead(work, begun):
        assert made == -item
        if 0 < item < len(begun) - 1:
            assert begun[item + 1].wait(PATIENCE)


def test_items_are_read_where_the_results_are_used() -> None:
    def items() -> Iterator[str]:
        for _ in range(3):
            yield current_thread().name

    assert {read for read, _ in one_ahead(len, items())} == {current_thread().name}


def test_an_error_comes_in_place_of_its_result() -> None:
    results = one_ahead(lambda item: 1 // item, [2, 1, 0, 1])
    assert [next(results), next(results)] == [(2, 0), (1, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)
