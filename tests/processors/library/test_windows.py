"""Windows in hand-built DAGs: equal to the same query of SQL, in one stage and in two."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.dag import DAG, Supplier, between
from runnel.processor import Watermark
from runnel.processors.library import (
    AggregateOperation,
    WindowDefinition,
    accumulate_by_pane,
    aggregate_by_session,
    aggregate_by_window,
    averaging,
    combine_by_window,
    counting,
    insert_watermarks,
    map_batches,
    maximum,
    result_sink,
    sink_to_list,
    sliding,
    source_of,
    summing,
    tumbling,
    write_mapping,
)
from runnel.testing import verify_processor
from runnel.testing.bench import BenchInbox, BenchOutbox
from runnel.testing.rows import rows_of
from tests.jobs.hand_built import steps
from tests.jobs.named import PATIENCE, World
from tests.processors.places import place
from tests.waiting import eventually

SECOND = timedelta(seconds=1)
START = datetime(2026, 1, 1)


def trades(seed: int, count: int, *, is_integer: bool = False, nulls: bool = False) -> pa.Table:
    """Trades in the order of their times, more or less."""
    random = Random(seed)
    seconds = [i // 2 + random.randrange(5) for i in range(count)]
    times: list[Any] = [s if is_integer else START + s * SECOND for s in seconds]
    if nulls:
        times[3] = None
    return pa.table(
        {
            "t": pa.array(times, pa.int64() if is_integer else pa.timestamp("us")),
            "ticker": [random.choice(["a", "b", None, "c"]) for _ in range(count)],
            "price": pa.array([random.randrange(100) for _ in range(count)], pa.int64()),
        }
    )


def own_sum(column: str, *, deducts: bool) -> AggregateOperation:
    def total(rows: pa.RecordBatch) -> int:
        return int(pc.sum(rows.column(column)).as_py())

    return AggregateOperation(
        create=lambda: [0],
        accumulate=lambda state, rows: [state[0] + total(rows)],
        combine=lambda a, b: [a[0] + b[0]],
        deduct=(lambda a, b: [a[0] - b[0]]) if deducts else None,
        export=lambda state: state[0],
        type=pa.int64(),
    )


OPERATIONS: dict[str, dict[str, AggregateOperation]] = {
    "sql": {"s": summing("price"), "n": counting()},
    "own": {"s": own_sum("price", deducts=False), "n": counting()},
    "deduct": {"s": own_sum("price", deducts=True), "n": counting()},
}


def run(batches: list[pa.RecordBatch], *steps: Supplier, keys: tuple[str, ...] = ()) -> list[Any]:
    """The rows of a chain of steps, the last one with three processors if it has keys."""
    result: list[pa.RecordBatch] = []
    dag = DAG()
    last = dag.vertex("rows", source_of(batches), 1)
    for number, step in enumerate(steps):
        count = 3 if keys and number else 1
        vertex = dag.vertex(f"step {number}", step, count)
        is_last = number == len(steps) - 1
        edge = between(last, vertex)
        dag.edge(edge.partitioned(*keys) if count > 1 and is_last else edge)
        last = vertex
    dag.edge(between(last, dag.vertex("sink", sink_to_list(result), 1)))
    with runnel.connect() as connection:
        connection.submit(dag).join(PATIENCE)
    return sorted(rows_of(result), key=repr)


def by_sql(table: pa.Table, windows: str, keys: str = "ticker, ") -> list[Any]:
    with runnel.connect() as connection:
        connection.register("trades", table)
        rows = connection.execute(
            f"SELECT window_start, window_end, {keys} SUM(price), COUNT(*) FROM TABLE({windows}) "
            f"GROUP BY window_start, window_end{', ticker' if keys else ''}"
        ).fetchall()
    return sorted(rows, key=repr)


@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize(
    ("window", "sql"),
    [
        (tumbling(10 * SECOND), "TUMBLE(TABLE trades, DESCRIPTOR(t), INTERVAL '10' SECOND)"),
        (
            sliding(30 * SECOND, 10 * SECOND),
            "HOP(TABLE trades, DESCRIPTOR(t), INTERVAL '30' SECOND, INTERVAL '10' SECOND)",
        ),
    ],
    ids=["tumbling", "sliding"],
)
@pytest.mark.parametrize("keys", [("ticker",), ()], ids=["keyed", "global"])
def test_windows_equal_sql(
    kind: str, stages: int, window: WindowDefinition, sql: str, keys: tuple[str, ...]
) -> None:
    table = trades(1, 150, nulls=True)
    arguments: Any = {"time": "t", "window": window, **OPERATIONS[kind]}
    steps = (
        [aggregate_by_window(*keys, **arguments)]
        if stages == 1
        else [accumulate_by_pane(*keys, **arguments), combine_by_window(*keys, **arguments)]
    )
    batches = table.to_batches(max_chunksize=20)
    found = run(batches, insert_watermarks("t", lag=5 * SECOND), *steps, keys=keys)
    assert found == by_sql(table, sql, "ticker, " if keys else "")


@pytest.mark.parametrize("kind", OPERATIONS)
def test_integer_times_and_offsets(kind: str) -> None:
    table = trades(2, 80, is_integer=True)
    step = aggregate_by_window(
        "ticker", time="t", window=sliding(6, 2, offset=1), **OPERATIONS[kind]
    )
    found = run(table.to_batches(max_chunksize=9), insert_watermarks("t", lag=5), step)
    assert found == by_sql(table, "HOP(TABLE trades, DESCRIPTOR(t), 6, 2, 1)")


def test_sessions_equal_sql() -> None:
    table = trades(3, 60).slice(0, 20)
    late = trades(4, 60).slice(40)
    table = pa.concat_tables([table, late])
    with runnel.connect() as connection:
        connection.register("trades", table)
        expected = connection.execute(
            "SELECT window_start, window_end, ticker, AVG(price), MAX(price) FROM TABLE(SESSION("
            "TABLE trades PARTITION BY ticker, DESCRIPTOR(t), INTERVAL '2' SECOND)) "
            "GROUP BY window_start, window_end, ticker"
        ).fetchall()
    step = aggregate_by_session(
        "ticker", time="t", gap=2 * SECOND, mean=averaging("price"), most=maximum("price")
    )
    found = run(
        table.to_batches(max_chunksize=7),
        insert_watermarks("t", lag=5 * SECOND),
        step,
        keys=("ticker",),
    )
    assert found == sorted(expected, key=repr)


@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("name", ["single", "combine", "session"])
def test_each_step_alone(kind: str, name: str) -> None:
    """With snapshots and restores at each point."""
    table = trades(5, 24, is_integer=True)
    window: Any = {"time": "t", "window": sliding(6, 2), **OPERATIONS[kind]}
    batches = table.to_batches(max_chunksize=6)
    if name == "session":
        step: Supplier = aggregate_by_session("ticker", time="t", gap=1, **OPERATIONS[kind])
        expected = by_sql(table, "SESSION(TABLE trades PARTITION BY ticker, DESCRIPTOR(t), 1)")
    else:
        step = aggregate_by_window("ticker", **window)
        expected = by_sql(table, "HOP(TABLE trades, DESCRIPTOR(t), 6, 2)")
    if name == "combine":
        from tests.processors.random_tables import outputs

        first = accumulate_by_pane("ticker", **window)
        batches = outputs(first, [batches], row_by_row=False)
        step = combine_by_window("ticker", **window)
    verify_processor(step, [batches], expected, ordered=False, row_by_row=name != "combine")


@pytest.mark.parametrize("kind", OPERATIONS)
def test_results_come_with_the_watermark_and_late_rows_are_counted(kind: str) -> None:
    def batch(*times: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {"t": list(times), "ticker": ["a"] * len(times), "price": [1] * len(times)}
        )

    def endless() -> Iterator[pa.RecordBatch]:
        yield batch(1, 2, 11)
        yield batch(25)
        yield batch(3, 26, 40)

    dag = DAG()
    source = dag.vertex("rows", source_of(endless), 1)
    order = dag.vertex("order", insert_watermarks("t"), 1)
    step = aggregate_by_window("ticker", time="t", window=tumbling(10), **OPERATIONS[kind])
    windows = dag.vertex("windows", step, 1)
    dag.edge(between(source, order)).edge(between(order, windows))
    dag.edge(between(windows, dag.vertex("result", result_sink(), 1)))
    with runnel.connect() as connection:
        job = connection.submit(dag)
        found = []
        while (part := job.results.next_batch(PATIENCE)) is not None:
            found += rows_of([part])
        assert job.metrics()["windows"].late_rows == 1
    assert found == [
        (0, 10, "a", 2, 2),
        (10, 20, "a", 1, 1),
        (20, 30, "a", 2, 2),
        (40, 50, "a", 1, 1),
    ]


def test_windows_without_keys_are_computed_by_one_processor() -> None:
    dag = DAG()
    dag.vertex("windows", aggregate_by_window(time="t", window=tumbling(5), n=counting()), 2)
    with (
        runnel.connect() as connection,
        pytest.raises(runnel.ProgrammingError, match="by one processor, not by 2"),
    ):
        connection.submit(dag).join(PATIENCE)


def test_rows_are_passed_on_with_their_columns() -> None:
    rows = pa.RecordBatch.from_pydict({"t": [1, 2], "x": ["a", None]})
    verify_processor(insert_watermarks("t", lag=1), [[rows]], [(1, "a"), (2, None)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tumbling(0), "must be positive"),
        (lambda: tumbling("10"), "timedelta or an int, not str"),  # type: ignore[arg-type]
        (lambda: sliding(10, 3), "isn't a multiple of its step"),
        (lambda: sliding(10, SECOND), "must all be timedeltas"),
        (lambda: insert_watermarks("t", lag=-1), "must not be negative"),
        (lambda: insert_watermarks("t", idle_timeout=5), "must be a timedelta"),  # type: ignore
        (lambda: aggregate_by_window("k", time="t", window=5, n=counting()), "a window can't be"),
        (lambda: aggregate_by_window("n", time="t", window=tumbling(5), n=counting()), "two colu"),
        (lambda: aggregate_by_window("k", time="t", window=tumbling(5), n=5), "AggregateOperation"),
        (lambda: aggregate_by_window("k", time=5, window=tumbling(5), n=counting()), "a column"),
        (lambda: aggregate_by_session("k", time="t", gap=0, n=counting()), "must be positive"),
        (lambda: aggregate_by_session("k", time="t", gap=1, n=5), "AggregateOperation"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(runnel.Error, match=message):
        make()


@pytest.mark.parametrize(
    ("window", "column", "message"),
    [
        (tumbling(5), [START], "size of a window is an integer"),
        (tumbling(SECOND), [1], "is a timedelta, but the time column"),
        (tumbling(5), ["x"], "can't have type VARCHAR"),
    ],
)
def test_columns_that_do_not_fit(window: WindowDefinition, column: list[Any], message: str) -> None:
    batch = pa.RecordBatch.from_pydict({"t": column, "k": [1]})
    for operation in (counting(), own_sum("k", deducts=True)):
        step = aggregate_by_window("k", time="t", window=window, n=operation)
        with pytest.raises(runnel.ProgrammingError, match=message):
            verify_processor(step, [[batch]], [], row_by_row=False)
    with pytest.raises(runnel.ProgrammingError, match='column "u" not found'):
        verify_processor(insert_watermarks("u"), [[batch]], [])


def waiting_state(step: Any, batch: pa.RecordBatch | None, watermark: int) -> list[pa.RecordBatch]:
    """The state of a processor after a batch (None: before any) and a watermark."""
    processor, outbox = step(), BenchOutbox(1, tight=False)
    processor.init(outbox, place()[1])
    if batch is not None:
        processor.process(0, BenchInbox([batch]))
    processor.process_watermark(Watermark(watermark))
    outbox.saving = True
    assert processor.save_snapshot()
    return outbox.state


def test_the_stored_forms_of_state() -> None:
    """If this fails, state of earlier versions can't be read any more."""
    batch = pa.RecordBatch.from_pydict({"k": ["a"], "t": [11]})
    operation = own_sum("t", deducts=True)
    step = aggregate_by_window("k", time="t", window=tumbling(10), s=operation)
    (early,) = waiting_state(step, None, 5)
    assert early.to_pydict() == {"$input watermark": [0], "time": [5]}
    schema, watermark, groups = waiting_state(step, batch, 12)
    assert schema.schema.names == ["$input schema"] and watermark.to_pydict() == {"watermark": [12]}
    assert pa.ipc.read_schema(pa.py_buffer(schema.column(0)[0].as_py())) == batch.schema
    assert groups.to_pydict() == {"$pane": [20], "k": ["a"], "$rows": [1], "s": [b'{"list": [11]}']}
    assert groups.schema.metadata == {b"runnel.state.key": b"k"}


def with_time(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column(0).to_pylist()
    return pa.RecordBatch.from_pydict({"k": [v % 5 for v in values], "t": values, "x": values})


def in_windows(world: str, kind: str, stages: int, parallelism: int) -> DAG:
    """Sums of numbers by remainder and window of 10; a window that comes twice is an error."""
    operation = summing("x") if kind == "sql" else steps.SUMS
    arguments: Any = {"time": "t", "window": sliding(20, 10), "s": operation}
    dag = DAG()
    source = dag.vertex("numbers", steps.numbers_of(world), 1)
    rows = dag.vertex("rows", map_batches(with_time), 1)
    order = dag.vertex("order", insert_watermarks("t"), 1)
    dag.edge(between(source, rows)).edge(between(rows, order))
    if kind == "session":
        step = aggregate_by_session("k", time="t", gap=5, s=summing("x"))
        last = dag.vertex("last", step, parallelism)
        dag.edge(between(order, last).partitioned("k"))
    elif stages == 1:
        last = dag.vertex("last", aggregate_by_window("k", **arguments), parallelism)
        dag.edge(between(order, last).partitioned("k"))
    else:
        first = dag.vertex("first", accumulate_by_pane("k", **arguments), parallelism)
        last = dag.vertex("last", combine_by_window("k", **arguments), parallelism)
        dag.edge(between(order, first)).edge(between(first, last).partitioned("k"))
    identified = dag.vertex("identified", map_batches(with_id), 1)
    sink = dag.vertex("write", write_mapping("sums"), 1)
    return dag.edge(between(last, identified)).edge(between(identified, sink))


def with_id(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = batch.select(["window_end", "k", "s"]).to_pylist()
    ids = [10 * row["window_end"] + row["k"] for row in rows]
    return pa.RecordBatch.from_pydict({"__key": ids, "this": [int(row["s"]) for row in rows]})


@pytest.mark.parametrize(
    ("kind", "stages"), [("sql", 1), ("sql", 2), ("own", 1), ("own", 2), ("session", 1)]
)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_named_job_is_restored_at_any_parallelism(
    kind: str, stages: int, parallelism: int
) -> None:
    steps.WORLDS["w"] = world = World()
    expected = []
    for rest in range(5):
        values = range(rest, 40, 5)
        if kind == "session":
            expected.append((10 * (values[-1] + 5) + rest, sum(values)))
        else:
            sums = {end: [v for v in values if end - 20 <= v < end] for end in range(10, 60, 10)}
            expected += [(10 * end + rest, sum(found)) for end, found in sums.items()]
    with runnel.connect() as connection:
        connection.execute(
            "CREATE MAPPING sums TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
        )
        job = connection.submit(in_windows("w", kind, stages, 2), name="j", guarantee="exactlyOnce")
        world.give(27)
        assert eventually(lambda: consumed(job) == 27)
        job.update(in_windows("w", kind, stages, parallelism), timeout=PATIENCE)
        world.give(40, ends=True)
        job.join(PATIENCE)
        found = connection.execute("SELECT * FROM sums").fetchall()
    del steps.WORLDS["w"]
    assert sorted(found) == sorted(expected)


def consumed(job: Any) -> int:
    return int(job.metrics()["order"].rows_in) if job.metrics() else 0
