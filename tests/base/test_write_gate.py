"""The gate of durable writes: steps run together, and none while it is closed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

import runnel
from runnel.deadline import Deadline
from runnel.storage.write_gate import WriteGate
from tests.waiting import eventually


def test_steps_run_together() -> None:
    gate, inside, leave = WriteGate(), Event(), Event()

    def step() -> None:
        with gate:
            inside.set()
            assert leave.wait(10)

    thread = Thread(target=step)
    thread.start()
    assert inside.wait(10)
    with gate, gate:  # a thread may enter again
        leave.set()
    thread.join(10)


def test_closing_waits_for_the_steps_inside_and_later_steps_wait() -> None:
    gate, inside, leave = WriteGate(), Event(), Event()
    order: list[str] = []

    def early() -> None:
        with gate:
            inside.set()
            assert leave.wait(10)
            with gate:  # while the gate is being closed
                order.append("early")

    def close() -> None:
        with gate.closed():
            order.append("closed")
            late.start()
            # The late step waits at the gate now, or arrives there later.
            order.append("listed")

    def write() -> None:
        with gate:
            order.append("late")

    first, late = Thread(target=early), Thread(target=write)
    first.start()
    assert inside.wait(10)
    closing = Thread(target=close)
    closing.start()
    assert eventually(lambda: gate._is_closed)
    leave.set()
    for thread in (first, closing, late):
        thread.join(10)
    assert order == ["early", "closed", "listed", "late"]


def test_counting_without_a_step_in_between() -> None:
    """Two counters that steps increase one after the other: equal, or one apart, at each cut."""
    gate, stop = WriteGate(), Event()
    counts = [0, 0]

    def write() -> None:
        while not stop.is_set():
            for index in range(2):
                with gate:
                    counts[index] += 1

    def look() -> None:
        for _ in range(200):
            with gate.closed():
                first = list(counts)
                second = list(counts)
            assert first == second
            assert first[0] - first[1] in (0, 1)

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(write)
        lookers = [pool.submit(look) for _ in range(2)]
        try:
            for item in lookers:
                item.result(60)
        finally:
            stop.set()
        writer.result(10)
    assert counts[0] > 0


def test_a_step_that_does_not_end_leaves_the_gate_open() -> None:
    gate, inside, leave = WriteGate(), Event(), Event()

    def step() -> None:
        with gate:
            inside.set()
            assert leave.wait(10)

    thread = Thread(target=step)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(runnel.OperationalError, match="paused") as caught, gate.closed(0):
        pass
    assert caught.value.code is runnel.ErrorCode.TIMEOUT
    with gate:
        pass
    with Deadline(0), pytest.raises(runnel.OperationalError, match="timed out"), gate.closed():
        pass
    with Deadline(None) as deadline:
        deadline.cancel()
        with pytest.raises(runnel.OperationalError, match="cancelled"), gate.closed():
            pass
    with gate:
        pass
    leave.set()
    thread.join(10)
    with gate.closed():
        pass


def test_an_error_inside_leaves_the_gate_open() -> None:
    gate = WriteGate()
    with pytest.raises(ZeroDivisionError), gate.closed():
        1 / 0  # noqa: B018
    with pytest.raises(ZeroDivisionError), gate:
        1 / 0  # noqa: B018
    with gate.closed(0), gate:  # the closing thread may enter, for another directory
        pass
    with gate.closed(0):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_the_gate_is_open_in_a_forked_child() -> None:
    gate = WriteGate()
    with gate.closed():
        child = os.fork()
        if not child:
            status = 1
            try:
                with gate:
                    pass
                with gate.closed(0):
                    pass
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
