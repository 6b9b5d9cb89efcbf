"""Hand-built DAGs through the connection."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

import runnel
from runnel import DAG, Connection, between, library


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["x"])


def doubling(result: list[pa.RecordBatch]) -> DAG:
    dag = DAG()
    source = dag.vertex("source", library.source_of([batch(1, 2), batch(3)]))
    double = dag.vertex(
        "double",
        library.map_batches(
            lambda b: pa.RecordBatch.from_arrays([pa.array([2 * x.as_py() for x in b["x"]])], ["x"])
        ),
    )
    sink = dag.vertex("sink", library.sink_to_list(result), parallelism=1)
    return dag.edge(between(source, double)).edge(between(double, sink))


def numbers(result: list[pa.RecordBatch]) -> list[int]:
    return sorted(value for item in result for value in item.column(0).to_pylist())


def test_one_dag_runs_many_times(connection: Connection) -> None:
    result: list[pa.RecordBatch] = []
    dag = doubling(result)
    for _ in range(3):
        result.clear()
        job = connection.submit(dag, name="doubling")
        job.join(30)
        assert numbers(result) == [2, 4, 6]
        assert (job.name, str(job.status)) == ("doubling", "COMPLETED")
        assert list(job.metrics()) == ["source", "double", "sink"]
    assert connection.jobs() == []


def test_a_job_can_be_awaited(connection: Connection) -> None:
    result: list[pa.RecordBatch] = []

    async def run() -> None:
        await connection.submit(doubling(result))

    asyncio.run(run())
    assert numbers(result) == [2, 4, 6]


def test_a_processor_that_fails_is_named(connection: Connection) -> None:
    dag = DAG()
    source = dag.vertex("source", library.source_of([batch(1)]))
    bad = dag.vertex("bad step", library.map_batches(lambda b: b.column("no such column")))
    sink = dag.vertex("sink", library.sink_to_list([]), parallelism=1)
    dag.edge(between(source, bad)).edge(between(bad, sink))
    job = connection.submit(dag)
    with pytest.raises(runnel.Error, match='"bad step"'):
        job.join(30)
    assert str(job.status) == "FAILED"


def test_results_of_a_hand_built_dag(connection: Connection) -> None:
    dag = DAG()
    source = dag.vertex("source", library.source_of([batch(1, 2)]))
    dag.edge(between(source, dag.vertex("result", library.result_sink(), parallelism=1)))
    job = connection.submit(dag)
    found = job.results.next_batch(30)
    assert found is not None and found.column(0).to_pylist() == [1, 2]
    assert job.results.next_batch(30) is None


def test_a_dag_that_is_not_sound_is_refused(connection: Connection) -> None:
    dag = DAG()
    vertex = dag.vertex("alone", library.source_of([batch(1)]))
    dag.edge(between(vertex, runnel.Vertex("elsewhere", library.result_sink())))
    with pytest.raises(runnel.ProgrammingError, match='unknown vertex "elsewhere"'):
        connection.submit(dag)
