"""How long what a statement does outside of jobs may wait."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic_ns

import pytest

from runnel.deadline import LEAST, Deadline, current, seconds
from runnel.errors import ErrorCode, OperationalError

SECOND = 1_000_000_000


def test_without_a_statement_the_usual_time_counts() -> None:
    assert seconds(10.0) == 10.0
    current().check()


def test_the_least_of_what_is_around_counts() -> None:
    now = monotonic_ns()
    with Deadline(now + 5 * SECOND):
        assert 4 < seconds(10.0) <= 5
        assert seconds(1.0) == 1.0
        with Deadline(now + 60 * SECOND):
            assert 4 < seconds(10.0) <= 5
        with Deadline(None):
            assert 4 < seconds(10.0) <= 5
        with Deadline(now + 2 * SECOND):
            assert 1 < seconds(10.0) <= 2
    assert seconds(10.0) == 10.0


def test_an_answer_that_is_there_counts_also_where_time_is_over() -> None:
    with Deadline(monotonic_ns() - SECOND):
        assert seconds(10.0) == LEAST


def test_who_cancels_ends_the_waiting() -> None:
    done, begun = Event(), Event()
    raised: list[OperationalError] = []
    with Deadline(None) as deadline:
        mine = current()
        assert mine is deadline

        def wait() -> None:
            with mine.on_cancel(done.set):
                begun.set()
                done.wait()
            try:
                mine.check()
            except OperationalError as error:
                raised.append(error)

        thread = Thread(target=wait)
        thread.start()
        begun.wait()
        deadline.cancel()
        thread.join()
        late = Event()
        with deadline.on_cancel(late.set):
            assert late.is_set(), "it was cancelled before"
    assert [error.code for error in raised] == [ErrorCode.CANCELLED]
    with pytest.raises(OperationalError):
        deadline.check()


def test_threads_have_their_own() -> None:
    found: list[float] = []
    with Deadline(monotonic_ns() + SECOND):
        thread = Thread(target=lambda: found.append(seconds(10.0)))
        thread.start()
        thread.join()
    assert found == [10.0]


def test_no_wake_is_lost_when_threads_wait_with_one_statement() -> None:
    deadline, other = Deadline(None), Event()

    def begin() -> None:
        thread = Thread(target=deadline._add_wake, args=(other.set,))
        thread.start()
        thread.join()

    class Wake:
        """While it is looked for, another thread begins to wait."""

        def __call__(self) -> None:
            pass

        def __eq__(self, wake: object) -> bool:
            begin()
            return self is wake

        def __hash__(self) -> int:
            begin()
            return 1

    with deadline.on_cancel(Wake()):
        pass
    deadline.cancel()
    assert other.is_set(), "the second wait doesn't hear it"
