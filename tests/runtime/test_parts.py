"""Small parts of the runtime: timers, parking, results, templates, the state machine's looks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pytest

from runnel.columns.key_hash import keyed_state
from runnel.dag import DAG, Routing, between
from runnel.errors import DataError, NotSupportedError, OperationalError
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.processors.sinks.result_queue import ResultQueue
from runnel.runtime.execution import Execution, ExecutionOptions
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.runtime.tasklets.processor_tasklet import STEPS
from runnel.runtime.tasklets.state import TaskletState
from runnel.runtime.template import Template, connected
from runnel.runtime.threads.idle import FIRST_DELAY, LAST_DELAY, Backoff, Parker
from runnel.runtime.threads.timers import NEVER, Timers
from runnel.runtime.threads.workers import Workers
from runnel.snapshots.store import MemorySnapshotStore, Outcome, SnapshotSize, VertexState, share_of
from runnel.testing import ManualClock
from tests.runtime.edges.test_queues import Idler
from tests.runtime.sample_processors import (
    BuildThenProbe,
    ItemSource,
    Pass,
    ToResults,
    chain,
    numbers,
    source,
    values_of,
)


def test_every_state_has_a_step() -> None:
    assert len(STEPS) == len(TaskletState) - 1
    for state in list(TaskletState)[:-1]:
        words = state.name.lower().split("_")
        assert STEPS[state].__name__.lstrip("_").startswith(words[0])


def test_permit_given_before_parking() -> None:
    parker = Parker()
    parker.unpark()
    parker.unpark()
    assert parker.park(0)
    assert not parker.park(0)


def test_backoff_grows_to_a_millisecond() -> None:
    backoff = Backoff()
    delays = [backoff.next_delay() for _ in range(10)]
    assert delays[0] == FIRST_DELAY
    assert delays == sorted(delays)
    assert delays[-1] == LAST_DELAY == 1_000_000
    assert backoff.is_exhausted
    backoff.reset()
    assert backoff.next_delay() == FIRST_DELAY


def test_timers_fire_in_order_and_once() -> None:
    timers = Timers()
    told: list[str] = []
    tasklet = Idler("a")
    assert timers.call_at(30, lambda: told.append("late"))
    assert timers.call_at(10, lambda: told.append("early"))
    assert not timers.wake_at(tasklet, 20)
    assert not timers.wake_at(tasklet, 20)
    assert len(timers) == 3
    timers.fire(9)
    assert told == []
    timers.fire(20)
    assert told == ["early"]
    assert tasklet.signalled
    timers.fire(100)
    assert told == ["early", "late"]
    assert timers.next_time == NEVER


def test_timers_forget() -> None:
    timers = Timers()
    tasklet, other = Idler("a"), Idler("b")
    timers.wake_at(tasklet, 1)
    timers.wake_at(other, 2)
    timers.forget([tasklet])
    assert (len(timers), timers.next_time) == (1, 2)
    assert timers.wake_at(tasklet, 1), "it may be asked for again"


def test_results_are_bounded_and_end_after_the_rows() -> None:
    results = ResultQueue(2)
    woken: list[int] = []
    results.on_room = lambda: woken.append(1)
    assert results.offer(numbers(1))
    assert results.offer(numbers(2))
    assert not results.offer(numbers(3))
    assert repr(results) == "<results 2/2 wanted>"
    results.end(DataError("bad"))
    assert values_of([results.next_batch(), results.next_batch()]) == [1, 2]
    assert woken == [1]
    for _ in range(2):
        with pytest.raises(DataError, match="bad"):
            results.next_batch()
    assert repr(results) == "<results 0/2 ended>"


def test_closed_results_take_everything_and_keep_nothing() -> None:
    results = ResultQueue(1)
    results.offer(numbers(1))
    results.close()
    assert results.offer(numbers(2))
    assert results.offer(numbers(3))
    assert len(results) == 0


def test_routing_connects_processors() -> None:
    dag = DAG()
    first, second = dag.vertex("a", Pass, 3), dag.vertex("b", Pass, 2)
    edge = between(first, second)
    assert [list(connected(edge, i, 2)) for i in range(3)] == [[0, 1]] * 3
    assert [list(connected(edge.isolated(), i, 2)) for i in range(3)] == [[0], [1], [0]]
    assert edge.partitioned("x").routing is Routing.PARTITIONED
    dag.edge(edge.isolated())
    template = Template.of(dag)
    layout = template.layout((3, 2))
    assert [plan.inputs[0].queues for plan in layout.tasklets if plan.vertex == 1] == [(0, 2), (1,)]
    assert template.layout((3, 2)) is layout


def test_isolated_edge_to_more_processors_than_it_has() -> None:
    dag = DAG()
    first, second = dag.vertex("a", source(numbers(1)), 1), dag.vertex("b", Pass, 3)
    last = dag.vertex("c", ToResults, 1)
    dag.edge(between(first, second).isolated()).edge(between(second, last))
    assert values_of(Simulation(dag, 5).run()) == [1]


def test_a_distributed_edge_is_refused() -> None:
    dag = DAG()
    first, last = dag.vertex("a", source(numbers(1), numbers(2)), 2), dag.vertex("b", ToResults, 2)
    with pytest.raises(NotSupportedError, match='"a" → "b" can\'t be distributed') as caught:
        between(first, last).distributed()
    assert ".distributed()" in str(caught.value.hint)
    dag.edge(between(first, last).partitioned("x"))
    assert sorted(values_of(Simulation(dag, 5).run())) == [1, 1, 2, 2]


def test_dag_with_its_template_can_be_pickled() -> None:
    dag = chain(Pass, ToResults)
    Template.of(dag)
    again = pickle.loads(pickle.dumps(dag))
    assert Template.of(again).order == Template.of(dag).order


def test_repr_of_tasklets_and_execution() -> None:
    dag = chain(source(numbers(1)), Pass, ToResults, parallelism=2)
    simulation = Simulation(dag, 1)
    assert repr(simulation.execution.tasklets[0]) == "<tasklet v0#0 INIT ready>"
    assert repr(simulation.execution) == "<execution of job 1, 6 of 6 tasklets left>"
    simulation.run()
    assert repr(simulation.execution.tasklets[3]) == "<tasklet v1#1 END>"

    class Blocking(Pass):
        cooperative = False

    assert (
        repr(Simulation(chain(Blocking, parallelism=2), 1).execution.tasklets[0])
        == "<blocking tasklet v0#0 INIT ready>"
    )


def test_repr_of_workers() -> None:
    assert repr(Workers(2, ManualClock())) == "<2 workers: not started>"


def test_state_is_divided_by_key() -> None:
    keyed = keyed_state(numbers(*range(40)), "x")
    shares = [share_of(keyed, i, 3) for i in range(3)]
    assert sorted(values_of(shares)) == list(range(40))
    assert all(share.num_rows for share in shares)
    assert share_of(numbers(1, 2), 2, 3).num_rows == 2, "what has no key goes to all"


def test_store_keeps_only_what_was_completed() -> None:
    store = MemorySnapshotStore()
    sizes: list[Outcome] = []
    store.write(1, "v", numbers(1))
    with pytest.raises(OperationalError, match="there is no snapshot 1"):
        store.read(1, "v")
    store.complete(1, [("v", numbers(5))], sizes.append)
    assert sizes == [SnapshotSize(rows=2, bytes=16, bytes_written=16)]
    store.write(2, "v", numbers(2))
    store.give_up(2)
    assert values_of(store.read(1, "v")) == [1, 5]
    assert store.read(1, "other") == ()


def test_snapshot_waits_for_the_build_side() -> None:
    """A barrier on an input that isn't read yet would never be seen, so the snapshot begins when
    the build side has ended."""
    dag = DAG()
    build = dag.vertex("build", source(numbers(1), numbers(2)), 1)
    probe = dag.vertex("probe", source(*(numbers(2) for _ in range(20))), 1)
    join = dag.vertex("join", BuildThenProbe, 1)
    last = dag.vertex("last", ToResults, 1)
    dag.edge(between(build, join)).edge(between(probe, join).to_input(1).with_priority(1)).edge(
        between(join, last)
    )
    assert Template(dag).before_snapshots == {"build"}
    taken = 0
    for seed in range(40):
        coordinator = SnapshotCoordinator(MemorySnapshotStore())
        simulation = Simulation(dag, seed, snapshots=coordinator)
        assert coordinator.begin(on_done=simulation._snapshot_done) == 1
        assert coordinator.begin() is None, "one at a time"
        assert values_of(simulation.run()) == [2] * 20
        taken += simulation.snapshots_taken
    assert taken >= 40


def test_terminal_snapshot_ends_the_job_and_the_next_one_goes_on() -> None:
    store = MemorySnapshotStore()
    batches = [numbers(i) for i in range(30)]
    coordinator = SnapshotCoordinator(store)
    simulation = Simulation(
        chain(source(*batches), Pass, ToResults), 4, SimulationOptions(snapshot=0), coordinator
    )
    for _ in range(60):
        simulation.step()
    assert coordinator.begin(is_terminal=True) == 1
    first = values_of(simulation.run())
    assert simulation.error is None
    assert store.completed is not None
    again = SnapshotCoordinator(store, restore_from=store.completed)
    rest = values_of(
        Simulation(
            chain(source(*batches), Pass, ToResults, parallelism=1), 5, snapshots=again
        ).run()
    )
    assert 0 < len(first) < 30
    assert sorted(first + rest) == list(range(30))


def test_after_a_terminal_snapshot_no_other_begins() -> None:
    """One that began while the job is ending would find all vertices ended, and a job that is
    restored from it, too."""
    store = MemorySnapshotStore()
    batches = [numbers(i) for i in range(30)]
    coordinator = SnapshotCoordinator(store)
    heard: list[bool] = []
    begun: list[int | None] = []

    def begin_another(is_safe: bool) -> None:
        begun.append(coordinator.begin(on_done=heard.append))
        begun.append(coordinator.request(on_done=heard.append))

    simulation = Simulation(
        chain(source(*batches), Pass, ToResults), 4, SimulationOptions(snapshot=0), coordinator
    )
    for _ in range(60):
        simulation.step()
    terminal = coordinator.begin(is_terminal=True, on_done=begin_another)
    assert coordinator.request(on_done=heard.append) is None
    first = values_of(simulation.run())
    assert begun == [None, None] and heard == []
    assert store.completed == terminal
    again = SnapshotCoordinator(store, restore_from=store.completed)
    rest = values_of(Simulation(chain(source(*batches), Pass, ToResults), 5, snapshots=again).run())
    assert sorted(first + rest) == list(range(30))


def test_a_terminal_snapshot_is_the_last_of_those_that_wait() -> None:
    coordinator = SnapshotCoordinator(MemorySnapshotStore())
    simulation = Simulation(
        chain(source(numbers(1)), Pass, ToResults), 4, SimulationOptions(snapshot=0), coordinator
    )
    heard: list[tuple[int, bool]] = []
    assert coordinator.request(on_done=lambda is_safe: heard.append((1, is_safe))) == 1
    assert coordinator.request(on_done=lambda is_safe: heard.append((2, is_safe))) == 2
    assert (
        coordinator.request(is_terminal=True, on_done=lambda is_safe: heard.append((3, is_safe)))
        == 3
    )
    assert coordinator.request() is None
    simulation.run()
    assert heard == [(1, True), (2, True), (3, True)]


def test_requests_of_those_that_only_wait_for_the_next_are_one() -> None:
    coordinator = SnapshotCoordinator(MemorySnapshotStore())
    Simulation(
        chain(source(numbers(1)), Pass, ToResults), 4, SimulationOptions(snapshot=0), coordinator
    )
    assert [coordinator.request() for _ in range(4)] == [1, 2, 2, 2]


def test_store_that_fails_gives_the_snapshot_up(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemorySnapshotStore):
        def complete(
            self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
        ) -> None:
            on_done(OSError("disk full"))

    outcomes: list[bool] = []

    class Told(ItemSource):
        def commit(self, snapshot_id: int, success: bool) -> bool:
            outcomes.append(success)
            return True

    coordinator = SnapshotCoordinator(Full())
    dag = chain(lambda: Told([numbers(i) for i in range(9)]), ToResults)
    simulation = Simulation(dag, 2, SimulationOptions(snapshot=0), coordinator)
    coordinator.begin()
    assert len(simulation.run()) == 9
    assert outcomes == [False]
    (message,) = caplog.messages
    assert message.startswith("snapshot 1 of job 1 failed; the job continues")
    assert message.endswith(": disk full")


def test_execution_is_made_without_owners() -> None:
    """An execution doesn't call anything by itself."""
    ended: list[object] = []
    job = JobContext(9, EvaluationContext(), ManualClock().monotonic)
    execution = Execution(
        Template(chain(source(numbers(1)))), job, ExecutionOptions(), ended.append
    )
    assert not execution.is_over
    assert ended == []
