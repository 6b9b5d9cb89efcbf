"""A processor of the user that sends a watermark that is not above its last one: the job fails with
an error that names its vertex and both watermarks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import runnel
from runnel.dag import DAG, between
from runnel.errors import ErrorCode
from runnel.processor import Item, Processor, Watermark
from runnel.runtime.simulation import Simulation, SimulationOptions
from tests.runtime.sample_processors import Collect, ItemSource, Pass, numbers


def line(items: Sequence[Item], sinks: int = 1) -> DAG:
    """A source "clicks" with these items, a vertex that passes them on, and sinks."""
    dag = DAG()
    source = dag.vertex("clicks", lambda: ItemSource(items), 1)
    passing = dag.vertex("pass", Pass, 1)
    dag.edge(between(source, passing))
    for number in range(sinks):
        sink = dag.vertex(f"sink {number}", lambda: Collect([]), 2)
        dag.edge(between(passing, sink).from_output(number))
    return dag


@pytest.mark.parametrize("later", [10, 20])
def test_the_error_names_the_vertex_and_both_watermarks(
    connection: runnel.Connection, later: int
) -> None:
    job = connection.submit(line([Watermark(20), numbers(1), Watermark(later)]))
    with pytest.raises(runnel.OperationalError) as caught:
        job.join(10)
    error = caught.value
    assert error.message == f'vertex "clicks" sent watermark {later} after watermark 20'
    assert error.detail == 'in vertex "clicks"'
    assert error.hint == (
        "the watermarks of a processor must increase: send one only if it is above the last one"
    )
    assert error.code is ErrorCode.GENERIC


def test_a_column_other_than_the_first_is_named(connection: runnel.Connection) -> None:
    job = connection.submit(line([Watermark(5), Watermark(9, 2), Watermark(6), Watermark(8, 2)]))
    with pytest.raises(runnel.OperationalError, match="watermark 8 after watermark 9 of column 2"):
        job.join(10)


class ToOutputs(Processor):
    """Sends watermarks to outputs that it chooses."""

    def __init__(self, items: Sequence[tuple[Watermark, int]]) -> None:
        self.items = list(items)

    def complete(self) -> bool:
        while self.items and self.outbox.offer(*self.items[0]):
            self.items.pop(0)
        return not self.items


@pytest.mark.parametrize(
    ("items", "is_refused"),
    [
        ([(Watermark(5), 0), (Watermark(5), 1), (Watermark(6), -1)], False),
        ([(Watermark(5), 0), (Watermark(3), 1), (Watermark(6), 1)], False),
        ([(Watermark(5), 0), (Watermark(3), 1), (Watermark(4), -1)], True),
        ([(Watermark(5), -1), (Watermark(4), 1)], True),
    ],
)
def test_each_output_has_an_order_of_its_own(
    connection: runnel.Connection, items: list[tuple[Watermark, int]], is_refused: bool
) -> None:
    dag = DAG()
    source = dag.vertex("clicks", lambda: ToOutputs(items), 1)
    for number in range(2):
        sink = dag.vertex(f"sink {number}", lambda: Collect([]), 1)
        dag.edge(between(source, sink).from_output(number))
    job = connection.submit(dag)
    if not is_refused:
        job.join(10)
        return
    with pytest.raises(runnel.OperationalError, match='vertex "clicks" sent watermark 4 after'):
        job.join(10)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("sinks", [1, 2])
def test_a_watermark_that_waits_for_room_is_offered_again(seed: int, sinks: int) -> None:
    items: list[Item] = [item for n in range(20) for item in (numbers(n), Watermark(n))]
    Simulation(line(items, sinks), seed, SimulationOptions(capacity=1)).run()
