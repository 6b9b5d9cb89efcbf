"""A source that becomes active again while its rows and another source's watermark are on their
way.

The resuming source tells the busy one when it is active, as the partitions of a followed folder do:
the busy source emits its watermark only then. On every path that watermark may be faster than the
rows, but no processor may pass it on before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runnel.dag import DAG, Vertex, between
from runnel.processor import Active, Idle, IdleOrigin, Inbox, Processor, Watermark
from runnel.runtime.simulation import Simulation
from tests.runtime.sample_processors import Collect, ItemSource, Pass, numbers, values_of

SEEDS = range(150)


class Sources:
    """Two sources and their log.

    log: the items that have reached the end of the DAG.
    """

    def __init__(self) -> None:
        self.origin = IdleOrigin()
        self.log: list[Any] = []
        self._made = iter((_Resuming(self), _Busy(self)))

    def idle(self) -> Processor:
        return _Resuming(self)

    def busy(self) -> Processor:
        return _Busy(self)

    def either(self) -> Processor:
        """The first call makes the resuming source, the second one the busy source."""
        return next(self._made)


class _Resuming(ItemSource):
    """Is idle until the busy source's first watermark has reached the end, then emits row 5."""

    def __init__(self, sources: Sources) -> None:
        super().__init__([Idle({sources.origin: 0})])
        self._sources = sources

    def complete(self) -> bool:
        if not super().complete():
            return False
        origin = self._sources.origin
        if not origin.resumptions:
            if Watermark(1) not in self._sources.log:
                return False
            origin.resumptions = 1
            self.items += [Active(origin, 1), numbers(5), Watermark(20)]
        return super().complete()


class _Busy(ItemSource):
    """Emits the watermark 9 as soon as the resuming source is active."""

    def __init__(self, sources: Sources) -> None:
        super().__init__([Watermark(1)])
        self._sources = sources

    def complete(self) -> bool:
        if self._sources.origin.resumptions and len(self.items) == 1:
            self.items += [Watermark(9), numbers(10), Watermark(30)]
        return super().complete() and len(self.items) > 1


class _Ordered(Processor):
    """Passes items on; fails if a row comes of which the time is behind the watermark."""

    def __init__(self) -> None:
        self.last = -1

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            assert min(values_of([batch])) >= self.last, "a row behind the watermark"
            if not self.outbox.offer(batch):
                return
            inbox.poll()

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.outbox.offer(watermark):
            return False
        self.last = watermark.time
        return True


def _two_inputs(dag: DAG, sources: Sources, order: Vertex) -> None:
    for number, make in enumerate((sources.idle, sources.busy)):
        start, way = dag.vertex(f"source {number}", make, 1), dag.vertex(f"way {number}", Pass, 1)
        dag.edge(between(start, way)).edge(between(way, order).to_input(number))


def _one_input(dag: DAG, sources: Sources, order: Vertex) -> None:
    """Each source has a way of its own to the same input."""
    start = dag.vertex("source", sources.either, 2)
    way = dag.vertex("way", Pass, 2)
    dag.edge(between(start, way).isolated()).edge(between(way, order))


def _directly(dag: DAG, sources: Sources, order: Vertex) -> None:
    dag.edge(between(dag.vertex("source", sources.either, 2), order))


@pytest.mark.parametrize("connect", [_two_inputs, _one_input, _directly])
def test_no_watermark_overtakes_the_rows_of_a_resumed_source(
    connect: Callable[[DAG, Sources, Vertex], None],
) -> None:
    for seed in SEEDS:
        sources, dag = Sources(), DAG()
        order = dag.vertex("order", _Ordered, 1)
        sink = dag.vertex("sink", lambda log=sources.log: Collect(log), 1)
        connect(dag, sources, order)
        simulation = Simulation(dag.edge(between(order, sink)), seed)
        simulation.run()
        assert simulation.error is None, (seed, simulation.error)
        rows = [item[1] for item in sources.log if isinstance(item, tuple) and item[0] == 0]
        assert sorted(rows) == [5, 10], seed
        times = [item.time for item in sources.log if isinstance(item, Watermark)]
        assert times[0] == 1
        assert times[-1] >= 20, "after the resumption both sources count"
