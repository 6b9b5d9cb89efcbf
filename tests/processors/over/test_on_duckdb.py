"""The processor that runs a plan on DuckDB over the rows of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.dag import DAG, between
from runnel.duckdb.kernel import DuckDBKernel
from runnel.errors import DataError, Error
from runnel.expressions.build import call
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Column, Expression, Literal, SortKey
from runnel.foreign.fragment import InputRows, Unrenderable
from runnel.processors.over.on_duckdb import on_duckdb
from runnel.processors.sinks.result_queue import result_sink
from runnel.processors.sources.scan import scan
from runnel.processors.sources.values import values
from runnel.relation.nodes import Aggregate, Field, Filter, Join, JoinKind, Project, Relation, Sort
from runnel.runtime.light_job import Jobs
from runnel.sqltypes import BIGINT, BOOLEAN, INTERVAL, VARCHAR
from runnel.testing import ScriptedSource

FIELDS = (Field("k", BIGINT), Field("s", VARCHAR))
K = Column(index=0, name="k", type=BIGINT)
S = Column(index=1, name="s", type=VARCHAR)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[DuckDBKernel]:
    made = DuckDBKernel(2, temp_directory=tmp_path)
    yield made
    made.close()


def run(kernel: DuckDBKernel, relation: Relation, inputs: list[pa.Table]) -> list[dict[str, Any]]:
    """The rows that the processor gives for these inputs."""
    names = [f"r{i}" for i in range(len(relation.fields))]
    dag = DAG()
    vertex = dag.vertex("duck", on_duckdb(relation, names), 1)
    for ordinal, table in enumerate(inputs):
        script = ScriptedSource(table.to_batches(1000))
        source = dag.vertex(
            f"source {ordinal}", scan(script, None, None, tuple(table.schema.names)), 1
        )
        dag.edge(between(source, vertex).to_input(ordinal))
    sink = dag.vertex("result", result_sink(), 1)
    dag.edge(between(vertex, sink))
    jobs = Jobs(2, kernel=lambda: kernel)
    try:
        job = jobs.start(dag, evaluation=EvaluationContext())
        rows: list[dict[str, Any]] = []
        while (batch := job.results.next_batch()) is not None:
            rows += batch.to_pylist()
        return rows
    finally:
        jobs.close()


def table(count: int) -> pa.Table:
    return pa.table(
        {
            "k": [i * 7919 % 1000 for i in range(count)],
            "s": [f"text {i % 13}" for i in range(count)],
        }
    )


def rows_of(number: int = 0) -> InputRows:
    return InputRows(number=number, columns=FIELDS)


def count_by_text() -> Relation:
    count = AggregateCall(function="count_star", arguments=(), type=BIGINT)
    grouped = Aggregate(input=rows_of(), keys=(S,), aggregates=(count,), names=("s", "n"))
    return Sort(input=grouped, keys=(SortKey(Column(index=0, name="s", type=VARCHAR)),))


def test_groups_in_order(kernel: DuckDBKernel) -> None:
    found = run(kernel, count_by_text(), [table(1300)])
    assert found == [{"r0": name, "r1": 100} for name in sorted(f"text {i}" for i in range(13))]


def test_no_rows(kernel: DuckDBKernel) -> None:
    assert run(kernel, count_by_text(), [table(0)]) == []


def test_two_inputs(kernel: DuckDBKernel) -> None:
    join = Join(
        kind=JoinKind.ANTI, left=rows_of(0), right=rows_of(1), left_keys=(K,), right_keys=(K,)
    )
    found = run(
        kernel, join, [table(1000), pa.table({"k": list(range(5, 1000)), "s": ["x"] * 995})]
    )
    assert sorted(str(row["r0"]) for row in found) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("size", [5_000, 50_000])
def test_more_than_may_be_kept_goes_to_tables(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    from runnel.processors.over import on_duckdb as module

    spill = module._Rows.spill

    def counted(self: Any, cursor: Any) -> None:
        moved.append(self.bytes)
        spill(self, cursor)

    monkeypatch.setattr(module._Rows, "spill", counted)
    kernel = DuckDBKernel(2, memory_limit=64 << 20, temp_directory=tmp_path)
    monkeypatch.setattr(module, "SHARE", (64 << 20) // 40_000)
    try:
        by_key = Sort(input=rows_of(), keys=(SortKey(K), SortKey(S)))
        found = run(kernel, by_key, [table(size)])
    finally:
        kernel.close()
    assert len(moved) > size // 5_000
    assert max(moved) < 200_000
    expected = sorted(zip(*table(size).to_pydict().values(), strict=True))
    assert [(row["r0"], row["r1"]) for row in found] == expected


def test_intervals_go_there_and_back(kernel: DuckDBKernel) -> None:
    fields = (Field("i", INTERVAL),)
    source = pa.table({"i": pa.array([5, None, -1], pa.duration("us"))})
    column = Column(index=0, name="i", type=INTERVAL)
    found = run(
        kernel, Sort(input=InputRows(number=0, columns=fields), keys=(SortKey(column),)), [source]
    )
    assert [None if row["r0"] is None else row["r0"].microseconds for row in found] == [
        None,
        999_999,
        5,
    ]


def test_a_failure_is_ours(kernel: DuckDBKernel) -> None:
    quotient = call("divide", (Literal(value=1, type=BIGINT), K))
    with pytest.raises(DataError, match="division by zero"):
        run(kernel, Project(input=rows_of(), expressions=(quotient,), names=("q",)), [table(10)])


def test_what_cannot_be_rendered_is_refused_when_planned() -> None:
    class Strange(Expression):
        pass

    with pytest.raises(Unrenderable):
        on_duckdb(Filter(input=rows_of(), condition=Strange(type=BOOLEAN)), ["k", "s"])


def test_it_needs_a_connections_duckdb() -> None:
    dag = DAG()
    source = dag.vertex("source", values(((Literal(value=1, type=BIGINT),),), ("k",)), 1)
    vertex = dag.vertex("duck", on_duckdb(InputRows(number=0, columns=FIELDS[:1]), ["k"]), 1)
    sink = dag.vertex("result", result_sink(), 1)
    dag.edge(between(source, vertex)).edge(between(vertex, sink))
    jobs = Jobs(1)
    try:
        with pytest.raises(Error, match="without a connection's DuckDB"):
            jobs.start(dag, evaluation=EvaluationContext()).results.next_batch()
    finally:
        jobs.close()


def test_a_connection_has_one(connection: runnel.Connection) -> None:
    assert not connection._database.kernel().is_open
