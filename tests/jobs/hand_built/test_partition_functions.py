"""Edges whose rows a function of the user divides, and the state that is restored over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel.columns.key_hash import Partitioning
from runnel.dag import DAG, Partitioner, Vertex, between
from runnel.named_jobs.hand_built.dag_record import dag_from_json, dag_to_json
from runnel.processors.library import (
    aggregate_by_key,
    counting,
    flat_map,
    map_batches,
    sink_to_list,
    source_of,
    summing,
)
from runnel.testing.rows import rows_of
from tests.jobs.hand_built import steps
from tests.jobs.named import PATIENCE, World
from tests.waiting import eventually


@pytest.fixture
def world() -> Iterator[World]:
    steps.WORLDS["w"] = world = World()
    yield world
    del steps.WORLDS["w"]


def all_to_the_last(keys: pa.RecordBatch, count: int) -> Any:
    return np.full(keys.num_rows, count - 1)


def by_remainder(keys: pa.RecordBatch, count: int) -> Any:
    return pa.array([value % count for value in keys.column("k").to_pylist()], pa.int8())


ROWS = pa.RecordBatch.from_pydict({"k": [3, 1, 3, 2, 1], "x": [1, 2, 3, 4, 5]})


def counted(function: Partitioner, parallelism: int = 2) -> list[tuple[Any, ...]]:
    result: list[pa.RecordBatch] = []
    dag = DAG()
    source = dag.vertex("rows", source_of(ROWS))
    group = dag.vertex("group", aggregate_by_key("k", n=counting()), parallelism)
    sink = dag.vertex("sink", sink_to_list(result), 1)
    dag.edge(between(source, group).partitioned_by(function, "k")).edge(between(group, sink))
    with runnel.connect() as connection:
        connection.submit(dag).join(PATIENCE)
    return sorted(rows_of(result))


@pytest.mark.parametrize("function", [all_to_the_last, by_remainder])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_groups_are_the_same(function: Partitioner, parallelism: int) -> None:
    assert counted(function, parallelism) == [(1, 2), (2, 1), (3, 2)]


def test_rows_go_to_the_processor_that_the_function_says() -> None:
    shares = Partitioning(("k",), by_remainder).divided(ROWS, 3)
    assert [share.column("k").to_pylist() for share in shares] == [[3, 3], [1, 1], [2]]
    assert [share.column("x").to_pylist() for share in shares] == [[1, 3], [2, 5], [4]]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda keys, count: np.full(5, count), "returned partition 2 for the key k=3"),
        (lambda keys, count: np.full(5, -1), "returned partition -1 for the key k=3"),
        (lambda keys, count: np.zeros(5), "returned a ndarray of float64"),
        (lambda keys, count: np.zeros(5, bool), "returned a ndarray of bool"),
        (lambda keys, count: [0, 1], "returned 2 numbers for 5 rows"),
        (lambda keys, count: pa.array([None] * 5, pa.int8()), "returned NULL"),
        (lambda keys, count: "k", "returned a str"),
        (lambda keys, count: None, "returned a NoneType"),
        (lambda keys, count: keys.column("z"), "failed"),
    ],
)
def test_functions_that_return_no_partition(function: Partitioner, message: str) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        counted(function)
    assert message in caught.value.message
    assert 'the edge "rows" → "group"' in caught.value.message
    assert 'in vertex "rows"' in str(caught.value.detail)


def test_bad_edges() -> None:
    dag = DAG()
    one, two = dag.vertex("one", source_of(ROWS)), dag.vertex("two", sink_to_list([]))
    with pytest.raises(runnel.InterfaceError, match="can't be a value of class int"):
        between(one, two).partitioned_by(5, "k")  # type: ignore[arg-type]
    with pytest.raises(runnel.ProgrammingError, match="has no key columns"):
        dag.edge(between(one, two).partitioned_by(by_remainder)).validate()
    lambdas = DAG(dict(dag.vertices), [between(one, two).partitioned_by(lambda k, n: k, "k")])
    with pytest.raises(runnel.ProgrammingError, match='function of the edge "one" → "two"'):
        dag_to_json(DAG({"one": one, "two": Vertex("two", one.supplier)}, lambdas.edges))


def test_the_stored_form_of_an_edge(world: World) -> None:
    dag = sums("w", by_remainder, 2)
    stored = dag_to_json(dag)
    assert stored["format"] == 2
    reference = "tests.jobs.hand_built.test_partition_functions:by_remainder"
    assert [edge.get("partitioner") for edge in stored["edges"]][1] == {"name": reference}
    assert dag_from_json(stored).edges == dag.edges
    plain = dag_to_json(steps.sums("w", steps.Adders()))
    assert plain["format"] == 1 and "partitioner" not in plain["edges"][0]
    with pytest.raises(runnel.OperationalError, match="has format 3"):
        dag_from_json({**stored, "format": 3})
    broken = {**stored, "edges": [dict(stored["edges"][1], partitioner={"name": "absent:f"})]}
    with pytest.raises(runnel.OperationalError, match='the edge "keys" → "group" can\'t be'):
        dag_from_json(broken)


def with_remainder(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column(0).to_pylist()
    return pa.RecordBatch.from_pydict({"k": [value % 5 for value in values], "x": values})


def sums(
    world: str,
    function: Partitioner | None,
    parallelism: int,
    keys: tuple[str, ...] = ("k",),
    own: bool = False,
) -> DAG:
    """Sums of numbers by their remainder; they are emitted at the end."""
    dag = DAG()
    source = dag.vertex("numbers", steps.numbers_of(world), 1)
    mapped = dag.vertex("keys", map_batches(with_remainder), 1)
    operation = steps.SUMS if own else summing("x")
    group = dag.vertex("group", aggregate_by_key("k", s=operation), parallelism)
    values = dag.vertex("values", flat_map(steps.sums_of), 1)
    sink = dag.vertex("keep", steps.kept_in(world), 1)
    edge = between(mapped, group)
    edge = edge.partitioned(*keys) if function is None else edge.partitioned_by(function, *keys)
    dag.edge(between(source, mapped)).edge(edge)
    return dag.edge(between(group, values)).edge(between(values, sink))


@pytest.mark.parametrize("own", [False, True], ids=["sql", "own"])
@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        (by_remainder, by_remainder, (2, 3)),
        (by_remainder, by_remainder, (3, 1)),
        (all_to_the_last, by_remainder, (3, 3)),
        (by_remainder, None, (2, 2)),
        (None, by_remainder, (2, 2)),
    ],
)
def test_restored_groups_are_where_the_function_sends_their_rows(
    tmp_path: Path,
    world: World,
    before: Partitioner | None,
    after: Partitioner | None,
    counts: tuple[int, int],
    own: bool,
) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        job = connection.submit(
            sums("w", before, counts[0], own=own), name="j", guarantee="exactlyOnce"
        )
        world.give(20)
        assert eventually(lambda: consumed(job) == 20)
        job.suspend(PATIENCE)
    with runnel.connect(tmp_path / "db") as connection:
        restored: Any = connection.job("j")
        restored.update(sums("w", after, counts[1], own=own), timeout=PATIENCE)
        if restored.status is runnel.JobStatus.SUSPENDED:
            restored.resume()
        world.give(40, ends=True)
        restored.join(PATIENCE)
    assert world.rows == [sum(range(rest, 40, 5)) for rest in range(5)]


def consumed(job: Any) -> int:
    return int(job.metrics()["group"].rows_in) if job.metrics() else 0


def test_an_edge_with_some_of_the_keys(world: World) -> None:
    """Groups by k and b, on an edge that is divided by k alone."""
    with runnel.connect() as connection:
        job = connection.submit(two_keys("w", 2), name="j", guarantee="exactlyOnce")
        world.give(20)
        assert eventually(lambda: consumed(job) == 20)
        job.update(two_keys("w", 3), timeout=PATIENCE)
        world.give(40, ends=True)
        job.join(PATIENCE)
    expected: dict[tuple[int, int], int] = {}
    for value in range(40):
        key = (value % 5, value % 4)
        expected[key] = expected.get(key, 0) + value
    assert world.rows == sorted(expected.values())


def with_two_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column(0).to_pylist()
    return pa.RecordBatch.from_pydict(
        {"k": [v % 5 for v in values], "b": [v % 4 for v in values], "x": values}
    )


def two_keys(world: str, parallelism: int) -> DAG:
    dag = DAG()
    source = dag.vertex("numbers", steps.numbers_of(world), 1)
    mapped = dag.vertex("keys", map_batches(with_two_keys), 1)
    group = dag.vertex("group", aggregate_by_key("b", "k", s=summing("x")), parallelism)
    values = dag.vertex("values", flat_map(steps.sums_of), 1)
    sink = dag.vertex("keep", steps.kept_in(world), 1)
    dag.edge(between(source, mapped)).edge(between(mapped, group).partitioned("k"))
    return dag.edge(between(group, values)).edge(between(values, sink))
