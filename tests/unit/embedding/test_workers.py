"""Computing one item ahead of the caller, and on all cores."""

from collections.abc import Iterator
from threading import Barrier, Event, current_thread
from weakref import finalize

import pytest

from chimeralab.core.errors import InputError
from chimeralab.embedding.workers import cores, on_all_cores, one_ahead, pool


def test_first_result_does_not_wait_for_a_second_item() -> None:
    def items() -> Iterator[str]:
        yield "first"
        pytest.fail("asked for before the first was handed over")

    assert next(one_ahead(str.upper, items())) == ("first", "FIRST")


def test_next_item_is_computed_while_one_is_used() -> None:
    begun = {item: Event() for item in range(4)}

    def work(item: int) -> int:
        begun[item].set()
        return -item

    for item, made in one_ahead(work, begun):
        assert made == -item
        if 0 < item < len(begun) - 1:
            begun[item + 1].wait()


def test_items_are_consumed_in_the_callers_thread() -> None:
    def items() -> Iterator[str]:
        for _ in range(3):
            yield current_thread().name

    assert {read for read, _ in one_ahead(len, items())} == {current_thread().name}


def test_error_is_raised_in_place_of_its_result() -> None:
    results = one_ahead(lambda item: 1 // item, [2, 1, 0, 1])
    assert [next(results), next(results)] == [(2, 0), (1, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_caller_works_even_if_all_threads_are_busy() -> None:
    busy, free = Event(), Event()

    def block() -> bool:
        busy.set()
        return free.wait()

    blocked = [pool().submit(block) for _ in range(cores())]
    busy.wait()
    done: list[int] = []
    try:
        on_all_cores(done.append, range(9))
    finally:
        free.set()
    assert done == list(range(9))
    assert all(each.result() for each in blocked)


def test_several_threads_process_every_item_once() -> None:
    meeting, done = Barrier(cores()), list[int]()

    def work(item: int) -> None:
        if item < cores():
            meeting.wait()  # every thread has come
        done.append(item)

    on_all_cores(work, range(100))
    assert sorted(done) == list(range(100))


class NumberedItem:
    """An item that can be weakly referenced."""

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_error_in_any_thread_reaches_the_caller_and_stops_the_work(bad: int) -> None:
    begun: list[int] = []
    dropped = Event()

    def items() -> Iterator[NumberedItem]:
        yield from map(NumberedItem, range(999))
        last = NumberedItem(999)
        finalize(last, dropped.set)
        yield last

    def work(item: NumberedItem) -> None:
        begun.append(item.number)
        if item.number == bad:
            raise IndexError(bad)
        if item.number > bad:
            dropped.wait()  # the error has cleared away what was still to be done

    with pytest.raises(IndexError, match=str(bad)):
        on_all_cores(work, items())
    assert len(begun) <= bad + cores()


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "²", "9" * 5000, " ", "1025"])
def test_thread_count_that_cannot_be_used_is_rejected(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_THREADS", asked)
    with pytest.raises(InputError, match=r"CHIMERA_THREADS.*from 1 to 1024"):
        cores.__wrapped__()
