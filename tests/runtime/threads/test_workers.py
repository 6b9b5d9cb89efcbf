"""How workers share work: who is given a tasklet, and when one takes from another. The threads
aren't started."""

from __future__ import annotations

from threading import current_thread, get_ident

import pytest

from runnel.runtime.tasklets.tasklet import NO_PROGRESS, Progress, Tasklet
from runnel.runtime.threads.sharing import FIRST_PAUSE, Sharing
from runnel.runtime.threads.workers import Worker, Workers
from runnel.testing import ManualClock


class Idle(Tasklet):
    """Never has anything to do."""

    def call(self) -> Progress:
        return NO_PROGRESS

    def ended(self) -> None:
        raise AssertionError("it never ends")


@pytest.fixture
def pool() -> Workers:
    """Three workers; the first is busy, on this thread, the others wait for something to do and
    watch nothing."""
    made = Workers(3, ManualClock())
    made.workers = tuple(Worker(made, number) for number in range(3))
    made.workers[0].ident = get_ident()
    for worker in made.workers[1:]:
        worker.is_waiting = True
    return made


def is_told(worker: Worker) -> bool:
    """Whether somebody has woken the worker since this was asked last."""
    return worker._parker.park(0)


def test_what_a_worker_wakes_is_its_own(pool: Workers) -> None:
    first, second, third = pool.workers
    tasklet = Idle()
    tasklet.owner = second
    tasklet.park()
    tasklet.wake()
    assert tasklet.owner is first
    assert (len(first), len(second)) == (1, 0)
    assert not is_told(second) and not is_told(third), "one short call needs no other thread"


def test_what_another_thread_wakes_stays_where_it_was(pool: Workers) -> None:
    _, second, _ = pool.workers
    pool.workers[0].ident = 0
    tasklet = Idle()
    tasklet.owner = second
    tasklet.park()
    tasklet.wake()
    assert tasklet.owner is second
    assert len(second) == 1
    assert is_told(second)


def test_work_that_piles_up_makes_one_of_the_others_watch(pool: Workers) -> None:
    first, second, third = pool.workers
    first.give(Idle())
    first.give(Idle())
    assert [is_told(worker) for worker in (second, third)] == [True, False]
    second.is_watching = True
    first.give(Idle())
    assert not is_told(second) and not is_told(third), "somebody looks anyway"


def test_a_worker_that_keeps_up_is_left_alone(pool: Workers) -> None:
    first, second, _ = pool.workers
    waiting = [Idle(), Idle()]
    for tasklet in waiting:
        first.give(tasklet)
    assert second._take_over() is None, "it was not there at the last look"
    first.rests += 1
    assert second._take_over() is None, "its list ran dry since"
    assert second._take_over() is waiting[1]
    assert waiting[1].owner is second
    assert len(first) == 1


def test_patient_tasklets_stay_together_while_one_worker_is_enough(pool: Workers) -> None:
    clock = pool.clock
    assert isinstance(clock, ManualClock)
    first, second, third = pool.workers
    home = pool.new_home()
    tasklets = [Idle() for _ in range(3)]
    for tasklet in tasklets:
        tasklet.is_background = True
    pool.adopt(tasklets, home)
    assert [len(worker) for worker in pool.workers] == [3, 0, 0]
    second._take_over()
    assert second._take_over() is tasklets[2], "what is new may be much"

    for worker in (first, second, third):
        worker._resting_since = 1
    first._rested, second._rested = -80_000_000, -10_000_000
    clock.advance(nanoseconds=100_000_000)
    assert second._take_over() is None, "the first worked for 80 ms of 100, the second for 10"

    second._rested -= 20_000_000
    clock.advance(nanoseconds=100_000_000)
    first._rested -= 80_000_000
    assert second._take_over() is tasklets[1], "together they did more than one could"
    assert tasklets[1].owner is second


def test_what_a_timer_wakes_stays_where_it_was(pool: Workers) -> None:
    first, second, _ = pool.workers
    tasklet = Idle()
    tasklet.owner = second
    tasklet.park()
    first.is_firing = True
    tasklet.wake()
    assert tasklet.owner is second


def test_who_stops_watching_while_work_waits_has_another_one_watch(pool: Workers) -> None:
    first, second, third = pool.workers
    second.is_waiting = False
    second.is_watching = True
    first.give(Idle())
    first.give(Idle())
    assert second._take_over() is None
    assert second._take_over() is not None
    second._stop_watching()
    assert is_told(third)


def test_who_watches_parks_only_when_nothing_waits(pool: Workers) -> None:
    first, second, third = pool.workers
    looks = 0
    while second._next_look() is not None:
        looks += 1
        assert second.is_watching
        assert third._next_look() is None, "one is enough"
        assert looks < 100
    assert looks > 8
    assert not second.is_watching
    first.give(Idle())
    assert second._next_look() is not None
    assert second.is_watching


def test_background_work_wakes_no_other_worker_while_one_is_enough(pool: Workers) -> None:
    first, second, third = pool.workers
    pool._looked, pool._sharing = (pool.clock.monotonic(), 0, 0), Sharing()
    for _ in range(3):
        tasklet = Idle()
        tasklet.is_background = True
        first.give(tasklet)
    assert not is_told(second) and not is_told(third), "they would not steal it"
    pool._sharing.is_shared = True
    first.give(tasklet)
    assert is_told(second)


def test_several_tasklets_for_a_waiting_worker_wake_another_one(pool: Workers) -> None:
    _, second, third = pool.workers
    second.give(Idle())
    assert is_told(second) and not is_told(third)
    second.give(Idle())
    assert is_told(second) and is_told(third)


def test_nobody_watches_workers_that_all_wait(pool: Workers) -> None:
    first, second, _ = pool.workers
    assert second._next_look() is not None, "the first one is busy"
    first.is_waiting = True
    assert second._next_look() is None
    first._list.append(Idle())
    assert second._next_look() is not None, "the first one is about to call its tasklet"


def test_sharing_in_vain_is_given_up_for_a_while() -> None:
    sharing = Sharing()
    sharing.begin(0)
    assert (sharing.is_shared, sharing.is_gathered) == (True, False)
    sharing.measured(100, 100, busy=190, used=110)
    assert (sharing.is_shared, sharing.is_gathered) == (False, True), "two were busy, one worked"
    sharing.begin(200)
    assert not sharing.is_shared, "new tasklets do not begin it again"
    sharing.measured(FIRST_PAUSE, 100, busy=100, used=100)
    assert not sharing.is_shared
    sharing.measured(FIRST_PAUSE + 100, 100, busy=100, used=100)
    assert (sharing.is_shared, sharing.is_gathered) == (True, False), "the next attempt"
    sharing.measured(FIRST_PAUSE + 200, 100, busy=200, used=100)
    sharing.measured(2 * FIRST_PAUSE + 300, 100, busy=100, used=100)
    assert not sharing.is_shared, "the pause has doubled"


def test_sharing_goes_on_while_it_is_useful() -> None:
    sharing = Sharing()
    sharing.begin(0)
    for now in (100, 200):
        sharing.measured(now, 100, busy=190, used=170)
        assert sharing.is_shared
    sharing.measured(300, 100, busy=120, used=100)
    assert sharing.is_shared, "the others had hardly anything to do"
    sharing.measured(400, 100, busy=190, used=None)
    assert sharing.is_shared, "a system without clocks of threads"
    sharing.measured(500, 100, busy=50, used=50)
    assert (sharing.is_shared, sharing.is_gathered) == (False, False), "one is enough"


def test_gathered_tasklets_return_to_the_first_worker(pool: Workers) -> None:
    first, second, _ = pool.workers
    pool._sharing = Sharing()
    pool._sharing.is_gathered = True
    patient, other = Idle(), Idle()
    patient.is_background = True
    for tasklet in (patient, other):
        tasklet.owner = second
        second.ready(tasklet)
    assert patient.owner is first
    assert list(first._list) == [patient, other], "this thread is the first worker"
    pool.workers[0].ident = 0
    second.ready(other)
    assert other.owner is second


def test_the_processor_time_of_a_thread_that_has_just_started(pool: Workers) -> None:
    worker = pool.workers[1]
    assert worker.processor_time() == 0, "it was not started"
    worker.thread = current_thread()
    worker.ident = 0
    assert worker.processor_time() != 0, "the thread runs, and has not stored its number yet"
