"""A hand-built DAG that can't work is refused when it is submitted, with what is wrong, and leaves
nothing running."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import runnel
from runnel.dag import DAG, Edge, Vertex, between
from runnel.processors.library import map_batches, sink_to_list, source_of

ROWS = pa.RecordBatch.from_pydict({"a": [1, 2]})


def line(join: Callable[[Vertex, Vertex], list[Edge]]) -> DAG:
    """A source and a sink with these edges."""
    dag = DAG()
    source, sink = dag.vertex("source", source_of(ROWS)), dag.vertex("sink", sink_to_list([]))
    for edge in join(source, sink):
        dag.edge(edge)
    return dag


def circle() -> DAG:
    dag = DAG()
    one, two = (dag.vertex(name, map_batches(lambda batch: batch)) for name in ("one", "two"))
    return dag.edge(between(one, two)).edge(between(two, one))


def stranger() -> DAG:
    dag = DAG()
    return dag.edge(
        between(dag.vertex("source", source_of(ROWS)), DAG().vertex("sink", sink_to_list([])))
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (DAG, "the DAG has no vertices"),
        (circle, "the DAG has a cycle"),
        (stranger, 'the edge "source" → "sink" names an unknown vertex "sink"'),
        (
            lambda: line(lambda source, sink: [between(source, sink), between(source, sink)]),
            'the outputs of vertex "source" are numbered [0, 0], not from 0 without gaps',
        ),
        (
            lambda: line(lambda source, sink: [between(source, sink).from_output(1)]),
            'the outputs of vertex "source" are numbered [1], not from 0 without gaps',
        ),
        (
            lambda: line(lambda source, sink: [between(source, sink).partitioned()]),
            'the partitioned edge "source" → "sink" has no key columns',
        ),
    ],
)
def test_it_is_refused(
    connection: runnel.Connection, make: Callable[[], DAG], message: str
) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        connection.submit(make())
    assert caught.value.message == message
    assert connection.jobs() == []


def test_a_key_that_no_batch_has(connection: runnel.Connection) -> None:
    job = connection.submit(line(lambda source, sink: [between(source, sink).partitioned("b")]))
    with pytest.raises(runnel.OperationalError, match='no key column "b"'):
        job.join(10)
