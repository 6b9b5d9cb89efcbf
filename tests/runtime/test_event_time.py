"""What the runtime does for event time: watermarks with numbers on edges, and alarms."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from runnel.base.clock import SYSTEM_CLOCK
from runnel.dag import DAG, between
from runnel.processor import IDLE, Inbox, Item, Outbox, Processor, ProcessorContext, Watermark
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.tasklets.tasklet import DONE, NO_PROGRESS, Progress, Tasklet
from runnel.runtime.threads.dedicated import DedicatedThread
from tests.runtime.sample_processors import ItemSource, ToResults, numbers

SEEDS = range(20)


def simulated(
    left: list[Item], right: list[Item], numbered: list[dict[int, int]], seed: int
) -> list[Item]:
    """The control items that a vertex of two inputs is given."""
    seen: list[Item] = []

    class Meets(Processor):
        def process(self, ordinal: int, inbox: Inbox) -> None:
            while inbox.poll() is not None:
                pass

        def process_watermark(self, watermark: Watermark) -> bool:
            seen.append(watermark)
            return True

    dag = DAG()
    sources = [
        dag.vertex(f"source {i}", lambda items=items: ItemSource(items), 1)
        for i, items in enumerate((left, right))
    ]
    meets = dag.vertex("meets", Meets, 1)
    end = dag.vertex("end", ToResults, 1)
    for ordinal, (source, watermarks) in enumerate(zip(sources, numbered, strict=True)):
        dag.edge(between(source, meets).to_input(ordinal).with_watermarks(watermarks))
    dag.edge(between(meets, end))
    Simulation(dag, seed, SimulationOptions()).run()
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_edges_with_numbers_of_their_own_do_not_hold_each_other_back(seed: int) -> None:
    left: list[Item] = [numbers(1), Watermark(10), Watermark(20)]
    right: list[Item] = [numbers(2)]
    assert simulated(left, right, [{0: 1}, {0: 2}], seed) == [Watermark(10, 1), Watermark(20, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_edges_that_bring_the_same_watermark_give_the_minimum(seed: int) -> None:
    left: list[Item] = [Watermark(10, 4), numbers(1), Watermark(20, 4)]
    right: list[Item] = [Watermark(15, 9), numbers(2), Watermark(99, 3), Watermark(16, 9)]
    seen = simulated(left, right, [{4: 1}, {9: 1}], seed)
    times = [item.time for item in seen if isinstance(item, Watermark)]
    assert times == sorted(set(times))
    assert times[-1] in (16, 20), "the side that is left counts alone when the other ended"
    assert set(times) <= {10, 15, 16, 20}
    assert all(isinstance(item, Watermark) and item.column == 1 for item in seen), (
        "what an edge doesn't bring ends there"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_an_idle_input_is_left_out_for_what_it_brings(seed: int) -> None:
    seen = simulated([Watermark(10), Watermark(30)], [Watermark(5), IDLE], [{0: 1}, {0: 1}], seed)
    assert seen[-1] == Watermark(30, 1)


class Gated(Processor):
    """Offers its items, each as soon as its gate is open; None is its end."""

    def __init__(self, *items: tuple[Item | None, Callable[[], bool]]) -> None:
        self.items = list(items)

    def complete(self) -> bool:
        while self.items:
            item, is_open = self.items[0]
            if not is_open() or (item is not None and not self.outbox.offer(item)):
                return False
            self.items.pop(0)
        return True


class Holds(Processor):
    """Gives its rows at the end only, as what waits for a watermark does."""

    def __init__(self) -> None:
        self.held: list[pa.RecordBatch] = []

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.held.append(batch)

    def complete(self) -> bool:
        while self.held and self.outbox.offer(self.held[0]):
            self.held.pop(0)
        return not self.held


class Meets(Processor):
    """Notes what it is given, rows by their first value."""

    def __init__(self) -> None:
        self.log: list[object] = []

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.log += batch.column(0).to_pylist()

    def process_watermark(self, watermark: Watermark) -> bool:
        self.log.append(watermark)
        return True


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_input_that_was_idle_counts_again_though_its_rows_are_held_on_the_way(
    seed: int, steps: int
) -> None:
    """Of two steps on the way the second hears nothing but that the first is at work again."""
    holding, meets = [Holds() for _ in range(steps)], Meets()
    quiet = Gated(
        (Watermark(5), lambda: True),
        (IDLE, lambda: True),
        (numbers(15), lambda: Watermark(10) in meets.log),
        (None, lambda: not other.items),
    )
    other = Gated(
        (Watermark(10), lambda: True),
        (Watermark(20), lambda: bool(holding[0].held) and 0 not in meets.idle_inputs),
    )
    dag = DAG()
    before = dag.vertex("quiet", lambda: quiet, 1)
    for number, processor in enumerate(holding):
        vertex = dag.vertex(f"holds {number}", lambda processor=processor: processor, 1)
        dag.edge(between(before, vertex))
        before = vertex
    last = dag.vertex("meets", lambda: meets, 1)
    dag.edge(between(before, last)).edge(
        between(dag.vertex("other", lambda: other, 1), last).to_input(1)
    )
    dag.edge(between(last, dag.vertex("end", ToResults, 1)))
    Simulation(dag, seed, SimulationOptions(spurious=0)).run()
    before_row = meets.log[: meets.log.index(15)]
    assert Watermark(10) in before_row, "while it was idle"
    assert Watermark(20) not in before_row, "when it was not"


class Ticking(Processor):
    """Emits a number at each full second, three times, and passes on what it gets."""

    def __init__(self) -> None:
        self.ticks = 0
        self.alarm = 1_000_000_000

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            if not self.outbox.offer(batch):
                return
            inbox.poll()

    def on_alarm(self) -> bool:
        assert self.context.job.clock() >= self.alarm
        if not self.outbox.offer(numbers(-self.ticks - 1)):
            return False
        self.ticks += 1
        self.alarm = self.alarm + 1_000_000_000 if self.ticks < 3 else 0
        return True


class Eager(Processor):
    """Has an alarm due at all times until a row came."""

    alarm = 1
    alarms = 0

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while inbox.poll() is not None:
            self.alarm = 0

    def on_alarm(self) -> bool:
        self.alarms += 1
        assert self.alarms < 1_000_000, "the inputs are never looked at"
        return True

    def complete(self) -> bool:
        return self.outbox.offer(numbers(self.alarms))


@pytest.mark.parametrize("seed", SEEDS)
def test_between_two_alarms_the_inputs_are_looked_at(seed: int) -> None:
    dag = DAG()
    source = dag.vertex("source", lambda: ItemSource([numbers(1)]), 1)
    eager = dag.vertex("eager", Eager, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(source, eager)).edge(between(eager, end))
    (found,) = Simulation(dag, seed, SimulationOptions()).run()
    assert found.num_rows == 1


class Slow(ItemSource):
    """Gives its items at seconds 2, 4, 6 …"""

    def complete(self) -> bool:
        due = (self.place + 1) * 2_000_000_000
        if self.context.job.clock() < due:
            self.context.wake_at(due)
            return False
        if self.place < len(self.items) and self.outbox.offer(self.items[self.place]):
            self.place += 1
        if self.place < len(self.items):
            self.context.wake_at((self.place + 1) * 2_000_000_000)
            return False
        return True


@pytest.mark.parametrize("seed", SEEDS)
def test_alarms_go_off_between_and_beside_the_input(seed: int) -> None:
    dag = DAG()
    source = dag.vertex("source", lambda: Slow([numbers(1), numbers(2)]), 1)
    ticking = dag.vertex("ticking", Ticking, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(source, ticking)).edge(between(ticking, end))
    found = Simulation(dag, seed, SimulationOptions()).run()
    values = [value for batch in found for value in batch.column(0).to_pylist()]
    assert sorted(values) == [-3, -2, -1, 1, 2]
    assert values[0] == -1, "the first alarm is before the first row"
    assert values.index(-2) < values.index(2), "the second before the second row"


class Postponing(Processor):
    """Waits for a second without a row, as what finds out that an input is idle does."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while inbox.poll() is not None:
            self.alarm = self.context.job.clock() + 1_000_000_000

    def on_alarm(self) -> bool:
        if not self.outbox.offer(numbers(self.context.job.clock())):
            return False
        self.alarm = 0
        return True


class Steady(Slow):
    """Gives its items a millisecond apart, and ends two seconds later."""

    def complete(self) -> bool:
        clock = self.context.job.clock()
        due = (self.place + 1) * 1_000_000 + (2_000_000_000 if self.place == len(self.items) else 0)
        if clock < due:
            self.context.wake_at(due)
            return False
        if self.place == len(self.items):
            return True
        self.place += self.outbox.offer(self.items[self.place])
        self.context.wake()
        return False


@pytest.mark.parametrize("seed", SEEDS)
def test_an_alarm_that_each_row_postpones_is_one_timer(seed: int) -> None:
    dag = DAG()
    source = dag.vertex("source", lambda: Steady([numbers(n) for n in range(50)]), 1)
    postponing = dag.vertex("postponing", Postponing, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(source, postponing)).edge(between(postponing, end))
    simulation = Simulation(dag, seed, SimulationOptions())
    most = 0
    while not simulation.execution.is_over or len(simulation._results):
        simulation.step()
        most = max(most, len(simulation._timers))
    alarms = [value for batch in simulation.batches for value in batch.column(0).to_pylist()]
    assert all(alarm > 1_000_000_000 for alarm in alarms), "a second after a row"
    assert most <= 3, "the next row's, and of the alarm the one that is due and at most one more"


class Sleeper(Tasklet):
    """Asks for two wake-ups in its first call, and is done at the second."""

    def __init__(self) -> None:
        super().__init__(is_cooperative=False)
        self.calls: list[int] = []

    def call(self) -> Progress:
        now = SYSTEM_CLOCK.monotonic()
        self.calls.append(now)
        if len(self.calls) == 1:
            self.owner.wake_at(self, now)
            self.owner.wake_at(self, now + 1_000_000)
        return DONE if now >= self.calls[0] + 1_000_000 else NO_PROGRESS

    def ended(self) -> None:
        pass


def test_a_thread_of_its_own_keeps_all_wake_ups() -> None:
    """Who asked for a later one before doesn't ask for it again."""
    sleeper = Sleeper()
    dedicated = DedicatedThread(sleeper, "sleeper", SYSTEM_CLOCK)
    dedicated.start()
    dedicated.thread.join(10)
    assert not dedicated.thread.is_alive()
    assert len(sleeper.calls) >= 2


class Unmade(Processor):
    """Fails before it knows anything of late rows."""

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        raise ValueError("no")

    @property
    def late_rows(self) -> int:
        return self.count  # type: ignore[attr-defined, no-any-return]


def test_a_processor_without_init_has_no_late_rows() -> None:
    dag = DAG()
    dag.edge(between(dag.vertex("unmade", Unmade, 1), dag.vertex("end", ToResults, 1)))
    simulation = Simulation(dag, 1, SimulationOptions())
    simulation.run()
    assert "no" in str(simulation.execution.error), "the failure of init, and no other"
    assert [tasklet.counts().late_rows for tasklet in simulation.execution.tasklets] == [0, 0]
