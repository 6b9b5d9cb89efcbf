"""Joins, order and distinct rows in hand-built DAGs, compared with SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.dag import DAG, Supplier, between
from runnel.named_jobs.hand_built.dag_record import dag_from_json, dag_to_json
from runnel.processor import Processor
from runnel.processors.library import (
    aggregate_by_session,
    aggregate_by_window,
    co_group,
    combine_by_window,
    counting,
    distinct_rows,
    hash_join,
    insert_watermarks,
    map_using_lookup,
    read_journal,
    read_mapping,
    sink_to_list,
    sliding,
    sort_rows,
    source_of,
    summing,
    top_rows,
    write_mapping,
)
from runnel.testing import verify_processor
from runnel.testing.rows import rows_of
from tests.jobs.named import PATIENCE
from tests.processors.random_tables import random_table

TABLE = random_table(11, 60, "isn")
SMALL = pa.table({"key": [1, 2, 2, None], "word": ["one", "two", "zwei", "none"]})


def by_sql(sql: str, **tables: pa.Table) -> list[Any]:
    with runnel.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("columns", "order"),
    [(("n",), "n"), (("-n",), "n DESC"), (("i", "-n"), "i, n DESC"), (("-s", "n"), "s DESC, n")],
)
@pytest.mark.parametrize("limit", [None, 0, 7])
def test_rows_are_sorted_as_by_sql(columns: tuple[str, ...], order: str, limit: Any) -> None:
    sql = f"SELECT * FROM t ORDER BY {order}" + ("" if limit is None else f" LIMIT {limit}")
    step = sort_rows(*columns, limit=limit) if limit is None else top_rows(limit, *columns)
    batches = TABLE.to_batches(max_chunksize=11)
    verify_processor(step, [batches], by_sql(sql, t=TABLE), row_by_row=False)


@pytest.mark.parametrize("columns", [(), ("i",), ("s", "i")])
def test_distinct_rows(columns: tuple[str, ...]) -> None:
    twice = pa.concat_tables([TABLE, TABLE])
    expected = by_sql(f"SELECT DISTINCT {', '.join(columns) or '*'} FROM t", t=twice)
    batches = twice.to_batches(max_chunksize=13)
    verify_processor(distinct_rows(*columns), [batches], expected, ordered=False, row_by_row=False)


def joined(step: Supplier, parallelism: int, *, partitioned: bool) -> list[Any]:
    result: list[pa.RecordBatch] = []
    dag = DAG()
    probe = dag.vertex("probe", source_of(TABLE.to_batches(max_chunksize=9)), 2)
    build = dag.vertex("build", source_of(SMALL), 1)
    join = dag.vertex("join", step, parallelism)
    left, right = between(probe, join).to_input(1).with_priority(1), between(build, join)
    dag.edge(right.partitioned("key") if partitioned else right.broadcast())
    dag.edge(left.partitioned("n") if partitioned else left)
    dag.edge(between(join, dag.vertex("sink", sink_to_list(result), 1)))
    with runnel.connect() as connection:
        connection.submit(dag).join(PATIENCE)
    return sorted(rows_of(result), key=repr)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_join_is_the_join_of_sql(outer: bool, partitioned: bool, parallelism: int) -> None:
    how = "LEFT JOIN" if outer else "JOIN"
    sql = f"SELECT t.*, word FROM t {how} small ON t.n = small.key"
    step = hash_join(TABLE.schema, SMALL.schema, {"n": "key"}, outer=outer, partitioned=partitioned)
    expected = by_sql(sql, t=TABLE, small=SMALL)
    assert joined(step, parallelism, partitioned=partitioned) == sorted(expected, key=repr)


def test_a_join_alone() -> None:
    expected = by_sql("SELECT t.*, word FROM t JOIN small ON t.n = small.key", t=TABLE, small=SMALL)
    verify_processor(
        hash_join(TABLE.schema, SMALL.schema, {"n": "key"}),
        [SMALL.to_batches(), TABLE.to_batches(max_chunksize=20)],
        expected,
        ordered=False,
        priorities=[0, 1],
        row_by_row=False,
    )


COLOURS = pa.table({"word": ["one", "two", "two"], "colour": ["red", "blue", "green"]})
SIZES = pa.table({"key": [1, 2, 5], "size": ["s", "m", "l"]})


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_several_build_sides(outer: bool, partitioned: bool, parallelism: int) -> None:
    """The keys of a build side are columns of the probe side, or of an earlier build side."""
    how = "LEFT JOIN" if outer else "JOIN"
    sql = (
        f"SELECT t.*, a.word, size FROM t {how} small a ON t.n = a.key {how} sizes b ON t.n = b.key"
    )
    builds, on = [SMALL, SIZES], [{"n": "key"}, {"n": "key"}]
    if not partitioned:
        sql = sql.replace("size FROM", "size, colour FROM") + f" {how} c ON a.word = c.word"
        builds, on = [*builds, COLOURS], [*on, {"word": "word"}]
    schemas = [item.schema for item in builds]
    step = hash_join(TABLE.schema, schemas, on, outer=outer, partitioned=partitioned)
    result: list[pa.RecordBatch] = []
    dag = DAG()
    join = dag.vertex("join", step, parallelism)
    for number, table in enumerate(builds):
        build = dag.vertex(f"build {number}", source_of(table), 1)
        edge = between(build, join).to_input(number)
        dag.edge(edge.partitioned("key") if partitioned else edge.broadcast())
    probe = dag.vertex("probe", source_of(TABLE.to_batches(max_chunksize=9)), 2)
    left = between(probe, join).to_input(len(builds)).with_priority(1)
    dag.edge(left.partitioned("n") if partitioned else left)
    dag.edge(between(join, dag.vertex("sink", sink_to_list(result), 1)))
    with runnel.connect() as connection:
        connection.submit(dag).join(PATIENCE)
    expected = by_sql(sql, t=TABLE, small=SMALL, sizes=SIZES, c=COLOURS)
    assert sorted(rows_of(result), key=repr) == sorted(expected, key=repr)
    assert expected


def test_several_build_sides_alone() -> None:
    """With snapshots and restores at each point."""
    sql = "SELECT t.*, word, size FROM t JOIN small a ON t.n = a.key JOIN s b ON t.n = b.key"
    verify_processor(
        hash_join(TABLE.schema, [SMALL.schema, SIZES.schema], [{"n": "key"}, {"n": "key"}]),
        [SMALL.to_batches(), SIZES.to_batches(), TABLE.to_batches(max_chunksize=20)],
        by_sql(sql, t=TABLE, small=SMALL, s=SIZES),
        ordered=False,
        priorities=[0, 0, 1],
        row_by_row=False,
    )


@pytest.mark.parametrize("build", [SMALL.schema, [SMALL.schema]], ids=["one", "list"])
def test_the_probe_side_must_wait(build: Any) -> None:
    on: Any = [{"n": "key"}] if isinstance(build, list) else {"n": "key"}
    step = hash_join(TABLE.schema, build, on)
    dag = DAG()
    probe, build = dag.vertex("probe", source_of(TABLE), 1), dag.vertex("build", Never, 1)
    join = dag.vertex("join", step, 1)
    dag.edge(between(build, join)).edge(between(probe, join).to_input(1))
    with (
        runnel.connect() as connection,
        pytest.raises(runnel.ProgrammingError, match="before the end of the build side") as caught,
    ):
        connection.submit(dag).join(PATIENCE)
    assert "with_priority(1)" in str(caught.value.hint)


class Never(Processor):
    """A source that has no rows yet."""

    def complete(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (sort_rows, "at least one column"),
        (lambda: top_rows(-1, "n"), "from 0 on, not -1"),
        (lambda: top_rows(None, "n"), "needs a number"),  # type: ignore[arg-type]
        (lambda: co_group("k", {"n": counting()}), "a list of key columns"),
        (lambda: co_group(["k"]), "at least one operation"),
        (lambda: co_group(["k"], {"k": counting()}), "two columns"),
        (lambda: co_group(["k"], counting()), "a dict of AggregateOperations"),  # type: ignore[arg-type]
        (lambda: hash_join(TABLE.schema, SMALL.schema, {}), "needs the key columns"),
        (lambda: hash_join(TABLE, SMALL.schema, {"n": "key"}), "needs a pyarrow.Schema"),  # type: ignore[arg-type]
        (lambda: hash_join(TABLE.schema, SMALL.schema, {"m": "key"}), 'column "m" not found'),
        (lambda: hash_join(TABLE.schema, SMALL.schema, {"s": "key"}), "have types VARCHAR and"),
        (lambda: hash_join(TABLE.schema, TABLE.schema, {"n": "n"}), "two columns"),
        (lambda: hash_join(TABLE.schema, "small", {"n": "key"}), "needs a pyarrow.Schema"),  # type: ignore[arg-type]
        (lambda: hash_join(TABLE.schema, [SMALL.schema], {"n": "key"}), "key columns of each"),
        (lambda: hash_join(TABLE.schema, [], []), "key columns of each"),
        (lambda: hash_join(TABLE.schema, [SMALL], [{"n": "key"}]), "needs a pyarrow.Schema"),  # type: ignore[list-item]
        (lambda: hash_join(TABLE.schema, [SMALL.schema] * 2, [{"n": "key"}] * 2), "two columns"),
        (
            lambda: hash_join(
                TABLE.schema,
                [SMALL.schema, SIZES.schema],
                [{"n": "key"}, {"i": "key"}],
                partitioned=True,
            ),
            "partitioned by different columns",
        ),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(runnel.Error, match=message):
        make()


@pytest.mark.parametrize("step", [sort_rows("x"), distinct_rows("x"), sort_rows("-x")])
def test_columns_that_are_missing(step: Supplier) -> None:
    with pytest.raises(runnel.ProgrammingError, match='column "x" not found'):
        verify_processor(step, [TABLE.to_batches()], [], row_by_row=False)


def test_a_batch_with_other_columns_than_declared() -> None:
    step = hash_join(SMALL.schema, SMALL.schema.remove(1), {"key": "key"})
    with pytest.raises(runnel.ProgrammingError, match="has other columns than it declares"):
        verify_processor(step, [SMALL.to_batches(), []], [], priorities=[0, 1])


def test_every_step_can_be_stored() -> None:
    window: Any = {"time": "t", "window": sliding(4, 2), "n": counting()}
    made = [
        aggregate_by_session("k", time="t", gap=5, n=counting()),
        aggregate_by_window("k", **window),
        combine_by_window("k", **window),
        co_group(["k"], {"n": counting()}, {"s": summing("x")}),
        distinct_rows("a"),
        hash_join(TABLE.schema, SMALL.schema, {"n": "key"}, outer=True),
        insert_watermarks("t", lag=5),
        map_using_lookup("m", "k", columns={"a": "b"}),
        read_journal("m", ["a"]),
        read_mapping("m", predicate="a > 1"),
        sort_rows("a", "-b", limit=5),
        top_rows(5, "a"),
        write_mapping("m", "sink"),
    ]
    for step in made:
        dag = DAG()
        dag.vertex("v", step)
        stored = dag_to_json(dag)
        assert dag_to_json(dag_from_json(stored)) == stored


VISITS = random_table(12, 40, "is").append_column("w", pa.array(range(40), pa.int64()))


@pytest.mark.parametrize("keys", [("s",), ("s", "i")])
def test_co_grouped_rows_are_a_full_join_of_groups(keys: tuple[str, ...]) -> None:
    names = ", ".join(keys)
    sql = (
        f"SELECT {names}, SUM(n), COUNT(n) FROM (SELECT {names}, n, NULL AS w FROM t UNION ALL "
        f"SELECT {names}, NULL, w FROM visits) GROUP BY {names}"
    )
    total = by_sql(sql.replace("COUNT(n)", "SUM(w)"), t=TABLE, visits=VISITS)
    verify_processor(
        co_group(keys, {"total": summing("n")}, {"weight": summing("w")}),
        [TABLE.to_batches(max_chunksize=13), VISITS.to_batches(max_chunksize=9)],
        total,
        ordered=False,
        row_by_row=False,
        priorities=(0, 0),
    )


def test_keys_of_different_types_and_too_many_inputs() -> None:
    step = co_group(["s"], {"n": counting()}, {"m": counting()})
    other = pa.RecordBatch.from_pydict({"s": [1]})
    with pytest.raises(runnel.ProgrammingError, match="has types string and int64"):
        verify_processor(step, [TABLE.to_batches(), [other]], [], row_by_row=False)
    one = co_group(["s"], {"n": counting()})
    with pytest.raises(runnel.ProgrammingError, match="operations for 1 inputs"):
        verify_processor(one, [TABLE.to_batches(), TABLE.to_batches()], [], row_by_row=False)
