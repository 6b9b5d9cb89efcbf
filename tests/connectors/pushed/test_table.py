"""Pushed streams: who gets which rows, waiting, the end, and rows that don't fit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from threading import Event, Thread
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.connector import BATCH_ROWS, END, EventTimeMark, Pause, ScanRequest, SourcePartition
from runnel.connectors.pushed.table import StreamTable, StreamWriter
from runnel.errors import DataError, ErrorCode, InterfaceError, OperationalError, ProgrammingError
from runnel.sqltypes import BIGINT, TIMESTAMP_TZ, VARCHAR, array, decimal
from tests.connectors.conformance import job_context

SCHEMA = {"id": "BIGINT", "name": "VARCHAR"}


def stream(**options: Any) -> tuple[StreamTable, StreamWriter]:
    table = StreamTable("events", SCHEMA, **options)
    return table, table.writer()


def reader(table: StreamTable, columns: tuple[int, ...] = (0, 1)) -> SourcePartition:
    (partition,) = table.scan(ScanRequest(columns)).split(job_context())
    return partition


def available(partition: SourcePartition) -> list[dict[str, Any]]:
    """What can be read now."""
    rows: list[dict[str, Any]] = []
    while isinstance(item := partition.read(), pa.RecordBatch):
        rows.extend(item.to_pylist())
    return rows


def in_thread(work: Callable[[], object]) -> tuple[Thread, list[BaseException]]:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    return thread, failures


def test_the_table_is_a_stream_that_can_end() -> None:
    table, _ = stream()
    assert table.is_unbounded
    assert table.can_end
    assert table.row_count() is None
    assert [(column.name, column.type) for column in table.columns] == [
        ("id", BIGINT),
        ("name", VARCHAR),
    ]


def test_rows_reach_the_reader_in_order_then_the_end() -> None:
    table, writer = stream()
    part = reader(table)
    part.open(lambda: None)
    assert isinstance(part.read(), Pause)
    assert writer.write([(1, "a"), (2, None)]) == 2
    writer.write([{"name": "c", "ID": 3}])
    assert available(part) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
        {"id": 3, "name": "c"},
    ]
    writer.write((4, "d") for _ in range(1))
    writer.close()
    writer.close()
    assert available(part) == [{"id": 4, "name": "d"}]
    assert part.read() is END
    assert part.read() is END
    part.close()


def test_what_was_written_before_a_reader_came_is_not_seen() -> None:
    table, writer = stream()
    first = reader(table)
    writer.write([(1, "a")])
    second = reader(table)
    writer.write([(2, "b")])
    assert [row["id"] for row in available(first)] == [1, 2]
    assert [row["id"] for row in available(second)] == [2]


def test_a_reader_of_a_closed_stream_is_at_its_end() -> None:
    table, writer = stream()
    writer.close()
    assert reader(table).read() is END


def test_columns_as_asked_for_and_rows_without_columns() -> None:
    table, writer = stream()
    names, none = reader(table, (1,)), reader(table, ())
    writer.write([(1, "a"), (2, "b")])
    assert available(names) == [{"name": "a"}, {"name": "b"}]
    batch = none.read()
    assert isinstance(batch, pa.RecordBatch)
    assert (batch.num_rows, batch.num_columns) == (2, 0)


def test_a_write_wakes_the_reader() -> None:
    table, writer = stream()
    part = reader(table)
    wakes = []
    part.open(lambda: wakes.append(1))
    writer.write([(1, "a")])
    assert len(wakes) == 1
    writer.close()
    assert len(wakes) == 2


def test_small_writes_come_as_one_batch() -> None:
    table, writer = stream()
    part = reader(table)
    for i in range(100):
        writer.write([(i, None)])
    batch = part.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 100


def test_without_a_reader_write_waits() -> None:
    table, writer = stream()
    with pytest.raises(OperationalError) as caught:
        writer.write([(1, "a")], timeout=0)
    assert caught.value.message == 'the write to stream "events" timed out: no query reads it'
    assert caught.value.code == ErrorCode.TIMEOUT
    thread, failures = in_thread(lambda: writer.write([(2, "b")]))
    part = reader(table)
    thread.join(10)
    assert not thread.is_alive()
    assert not failures
    assert available(part) == [{"id": 2, "name": "b"}]


def test_a_write_that_waits_for_a_first_reader_tells_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runnel.connectors.pushed.table.UNREAD_SECONDS", 0.0)
    _, writer = stream()
    for _ in range(2):
        with pytest.raises(OperationalError, match="no query reads it"):
            writer.write([(1, "a")], timeout=0.01)
    told = [record.getMessage() for record in caplog.records]
    assert told == ['a write to stream "events" waits: no query reads it yet (execute one first)']


def test_a_slow_reader_holds_back_the_writer() -> None:
    table, writer = stream(buffered_rows=2)
    slow, quick = reader(table), reader(table)
    writer.write([(1, "a"), (2, "b")])
    assert len(available(quick)) == 2
    with pytest.raises(OperationalError, match="a query that reads it is too slow"):
        writer.write([(3, "c")], timeout=0)
    thread, failures = in_thread(lambda: writer.write([(4, "d")]))
    batch = (
        slow.read()
    )  # once: the writer goes on at the same moment, and a second read might see its row
    assert isinstance(batch, pa.RecordBatch) and batch["id"].to_pylist() == [1, 2]
    thread.join(10)
    assert not thread.is_alive()
    assert not failures
    assert [row["id"] for row in available(slow)] == [4]
    assert [row["id"] for row in available(quick)] == [4]


@pytest.mark.parametrize("closed", [True, False])
def test_a_reader_that_goes_frees_the_writer(closed: bool) -> None:
    table, writer = stream(buffered_rows=1)
    kept = reader(table)
    gone = reader(table)
    writer.write([(1, "a")])
    available(kept)
    thread, failures = in_thread(lambda: writer.write([(2, "b")], timeout=10))
    if closed:
        gone.close()
        gone.close()
    else:
        del gone
        gc.collect()
    thread.join(10)
    assert not failures
    assert [row["id"] for row in available(kept)] == [2]
    assert writer.reader_count == 1


def test_closing_frees_a_waiting_writer() -> None:
    _, writer = stream()
    began = Event()

    def write() -> None:
        began.set()
        writer.write([(1, "a")])

    thread, failures = in_thread(write)
    began.wait(10)
    writer.close()
    thread.join(10)
    assert [type(error) for error in failures] == [InterfaceError]
    with pytest.raises(InterfaceError, match='the stream "events" is closed'):
        writer.write([(1, "a")])


def test_closing_the_connection_frees_a_waiting_writer() -> None:
    connection = runnel.connect()
    writer = connection.register_stream("events", SCHEMA)
    thread, failures = in_thread(lambda: writer.write([(1, "a")]))
    connection.close()
    thread.join(10)
    assert not thread.is_alive()
    assert [type(error) for error in failures] == [InterfaceError]


@pytest.mark.parametrize("replaced", [True, False])
def test_unregistering_frees_a_waiting_writer(replaced: bool) -> None:
    with runnel.connect() as connection:
        writer = connection.register_stream("events", SCHEMA)
        thread, failures = in_thread(lambda: writer.write([(1, "a")]))
        if replaced:
            connection.register("events", pa.table({"id": [1]}))
        else:
            connection.unregister("events")
        thread.join(10)
        assert [str(error).split("\n")[0] for error in failures] == [
            'the stream "events" is no longer registered'
        ]


def test_queries_go_on_with_a_stream_that_was_unregistered() -> None:
    with runnel.connect() as connection:
        writer = connection.register_stream("events", SCHEMA)
        cursor = connection.execute("SELECT id FROM events")
        connection.unregister("events")
        writer.write([(1, "a")])
        assert cursor.fetchone() == (1,)
        (job,) = connection.jobs()
        cursor.close()
        job.wait()
        with pytest.raises(InterfaceError, match="no longer registered"):
            writer.write([(2, "b")])


def test_many_writers_lose_nothing() -> None:
    table, writer = stream(buffered_rows=64)
    part = reader(table)
    ready = Event()
    part.open(ready.set)
    threads = [
        in_thread(lambda base=base: [writer.write([(base + i, None)]) for i in range(200)])
        for base in (0, 1000, 2000)
    ]
    seen: list[int] = []
    while len(seen) < 600:
        ready.clear()
        rows = [row["id"] for row in available(part)]
        seen += rows
        assert rows or ready.wait(10)
    for thread, failures in threads:
        thread.join(10)
        assert not failures
    assert sorted(seen) == sorted(base + i for base in (0, 1000, 2000) for i in range(200))
    assert all(
        [i for i in seen if base <= i < base + 200] == list(range(base, base + 200))
        for base in (0, 1000, 2000)
    )


def test_the_context_manager_closes() -> None:
    table, writer = stream()
    part = reader(table)
    with pytest.raises(KeyError), writer:
        writer.write([(1, "a")])
        raise KeyError
    assert len(available(part)) == 1
    assert part.read() is END
    assert repr(writer) == "<StreamWriter events: closed>"


ARROW = pa.table(
    {"name": pa.array(["a", "b"], pa.large_string()), "id": pa.array([1, 2], pa.int16())}
)


@pytest.mark.parametrize(
    "data",
    [ARROW, ARROW.to_batches()[0], ARROW.to_reader(), pl.from_arrow(ARROW), ARROW.to_pandas()],
    ids=["table", "batch", "reader", "polars", "pandas"],
)
def test_arrow_data_by_name(data: Any) -> None:
    table, writer = stream()
    part = reader(table)
    assert writer.write(data) == 2
    assert available(part) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_large_tables_come_in_batches_of_the_right_size() -> None:
    table, writer = stream()
    part = reader(table)
    writer.write(pa.table({"id": pa.arange(0, BATCH_ROWS + 10)}))
    sizes = []
    while isinstance(item := part.read(), pa.RecordBatch):
        sizes.append(item.num_rows)
    assert sizes == [BATCH_ROWS, 10]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            [(1, "a"), ("x", "b")],
            'a value doesn\'t fit column "id" of type BIGINT of stream "events"',
        ),
        ([{"id": 2**63}], 'a value doesn\'t fit column "id" of type BIGINT of stream "events"'),
        ([(1,)], 'a row for stream "events" has 1 values where 2 are expected'),
        ([(1, "a"), 5], 'a row for stream "events" is a int, not a tuple or dict'),
        ([{"id": 1}, (1, "a")], 'a row for stream "events" is a tuple among dicts'),
        ([{"idd": 1}], 'stream "events" has no column "idd"'),
        (pa.table({"id": [1], "x": [2]}), 'stream "events" has no column "x"'),
        (
            pa.table({"id": ["1"]}),
            'a value doesn\'t fit column "id" of type BIGINT of stream "events"',
        ),
        (
            pa.table({"id": pa.array([2**63], pa.uint64())}),
            'a value doesn\'t fit column "id" of type BIGINT of stream "events"',
        ),
    ],
)
def test_rows_that_dont_fit_are_named_and_nothing_is_written(data: Any, message: str) -> None:
    table, writer = stream()
    part = reader(table)
    with pytest.raises(DataError) as caught:
        writer.write(data)
    assert caught.value.message == message
    assert available(part) == []


@pytest.mark.parametrize("data", ["text", 5, None])
def test_what_is_no_rows(data: Any) -> None:
    _, writer = stream()
    with pytest.raises(ProgrammingError, match="can't be written to stream"):
        writer.write(data)


def test_types_by_name() -> None:
    table = StreamTable(
        "s",
        {
            "a": "decimal(10, 2)",
            "b": "Timestamp  with time zone",
            "c": "bigint[]",
            "d": VARCHAR,
            "e": "DECIMAL",
        },
    )
    assert [column.type for column in table.columns] == [
        decimal(10, 2),
        TIMESTAMP_TZ,
        array(BIGINT),
        VARCHAR,
        decimal(),
    ]
    part, writer = reader(table, (0, 1, 2)), table.writer()
    writer.write([("1.5", datetime(2024, 1, 1, tzinfo=UTC), [1, None], "x", None)])
    assert available(part)[0]["c"] == [1, None]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, 'the stream "s" has no columns'),
        ({"a": "BIGNIT"}, 'unknown type "BIGNIT" of column "a"'),
        ({"a": "DECIMAL(39, 2)"}, 'unknown type "DECIMAL(39, 2)" of column "a"'),
        ({"a": "BIGINT", "A": "BIGINT"}, 'column "A" comes twice in the schema of stream "s"'),
        (pa.schema([]), 'the stream "s" has no columns'),
        ([("a", "INT")], 'a value of class list can\'t be the schema of stream "s"'),
        (None, 'a value of class NoneType can\'t be the schema of stream "s"'),
        ({"a": int}, "'a': <class 'int'> can't be a column of stream \"s\""),
        ({1: "INT"}, "1: 'INT' can't be a column of stream \"s\""),
    ],
)
def test_wrong_schemas(schema: Any, message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        StreamTable("s", schema)
    assert caught.value.message == message


def test_a_schema_of_pairs(connection: runnel.Connection) -> None:
    pairs: Any = [("a", "INT")]
    with pytest.raises(runnel.ProgrammingError, match="class list") as error:
        connection.register_stream("s", pairs)
    assert error.value.hint == (
        "pass a pyarrow Schema, or a dict of names and SQL types: {'id': 'BIGINT'}"
    )
    connection.register_stream("s", dict(pairs)).close()
    assert connection.execute("SELECT a FROM s").fetchall() == []


def test_an_arrow_schema() -> None:
    table = StreamTable(
        "s", pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("t", pa.timestamp("ns"))])
    )
    part, writer = reader(table), table.writer()
    writer.write(pd.DataFrame({"a": ["x"], "t": [pd.Timestamp("2024-01-01")]}))
    assert available(part) == [{"a": "x", "t": datetime(2024, 1, 1)}]


def everything(partition: SourcePartition) -> list[Any]:
    """Rows, as lists, and the times of marks, in order, as they can be read now."""
    items: list[Any] = []
    while not isinstance(item := partition.read(), Pause):
        if item is END:
            return items
        items.append(item.time if isinstance(item, EventTimeMark) else item.to_pydict()["id"])
    return items


def test_a_watermark_comes_between_the_rows_it_was_given_between() -> None:
    table, writer = stream()
    part = reader(table)
    wakes: list[int] = []
    part.open(lambda: wakes.append(1))
    writer.write([(1, "a")])
    writer.write([(2, "b")])
    assert writer.watermark(10)
    assert len(wakes) == 3
    writer.write([(3, "c")])
    writer.close()
    assert everything(part) == [[1, 2], 10, [3]]


def test_a_watermark_that_promises_nothing_new_is_left_out() -> None:
    table, writer = stream()
    part = reader(table)
    assert [writer.watermark(time) for time in (5, 5, 3, 6)] == [True, False, False, True]
    assert everything(part) == [6], "nor is one that the next one makes needless before it is read"
    assert not writer.watermark(4)
    assert everything(part) == []


def test_watermarks_need_no_room_and_no_reader() -> None:
    table, writer = stream(buffered_rows=1)
    assert writer.watermark(1)
    part = reader(table)
    writer.write([(1, "a")])
    for time in range(2, 5_000):
        assert writer.watermark(time)
    assert everything(part) == [1, [1], 4_999], "a promise from before counts for a new reader too"


def test_no_watermark_after_the_end() -> None:
    _, writer = stream()
    writer.close()
    with pytest.raises(InterfaceError, match="is closed"):
        writer.watermark(1)


def timed(sql_type: str, **options: Any) -> tuple[StreamTable, StreamWriter]:
    with runnel.connect() as connection:
        schema = {"id": "BIGINT", "at": sql_type}
        writer = connection.register_stream("events", schema, time_column="AT", **options)
        found = connection._database.catalog.snapshot.get("events")
        assert isinstance(found.table, StreamTable)  # type: ignore[union-attr]
        return found.table, writer  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sql_type", "value", "time"),
    [
        ("BIGINT", -7, -7),
        ("INTEGER", 7, 7),
        ("DATE", date(1970, 1, 2), 86_400_000_000),
        ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        ("TIMESTAMP", pd.Timestamp("1970-01-01 00:00:01"), 1_000_000),
        ("TIMESTAMP WITH TIME ZONE", datetime(1970, 1, 1, 1, tzinfo=UTC), 3_600_000_000),
        ("TIMESTAMP WITH TIME ZONE", datetime(1970, 1, 1, 1), 3_600_000_000),
    ],
)
def test_watermarks_are_values_of_the_time_column(sql_type: str, value: Any, time: int) -> None:
    table = StreamTable("events", {"at": sql_type}, event_time=lambda columns: EventTime(0, 0))
    part, writer = reader(table, (0,)), table.writer()
    writer.watermark(value)
    item = part.read()
    assert isinstance(item, EventTimeMark)
    assert item.time == time


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("BIGINT", datetime(2024, 1, 1)),
        ("TIMESTAMP", 5),
        ("TIMESTAMP", None),
        ("TIMESTAMP", "soon"),
        ("INTEGER", 2**31),
    ],
)
def test_what_is_no_value_of_the_time_column_is_no_watermark(sql_type: str, value: Any) -> None:
    table = StreamTable("events", {"at": sql_type}, event_time=lambda columns: EventTime(0, 0))
    with pytest.raises(ProgrammingError, match='is no watermark of stream "events"') as caught:
        table.writer().watermark(value)
    assert f'column "at", {sql_type}' in (caught.value.hint or "")


@pytest.mark.parametrize("value", [None, True, "soon", 1.5, object()])
def test_without_a_time_column_watermarks_are_integers_or_times(value: Any) -> None:
    _, writer = stream()
    with pytest.raises(ProgrammingError, match="is no watermark"):
        writer.watermark(value)
    assert writer.watermark(datetime(1970, 1, 1, 0, 0, 1))
    assert not writer.watermark(1_000_000)


def test_registering_says_where_event_time_is() -> None:
    assert timed("TIMESTAMP")[0].event_time == EventTime(1, 0, None)
    options = {"max_disorder": timedelta(seconds=2), "idle_timeout": timedelta(seconds=5)}
    assert timed("TIMESTAMP", **options)[0].event_time == EventTime(1, 2_000_000, 5_000)
    assert timed("BIGINT", max_disorder=9, idle_timeout=timedelta(0))[0].event_time == EventTime(
        1, 9, 0
    )
    assert stream()[0].event_time is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time_column": "when"}, 'no column "when"'),
        ({"time_column": "name"}, "can't be its time column"),
        ({"max_disorder": 1}, "no time column"),
        ({"time_column": "at", "max_disorder": 1}, "must be a timedelta"),
        ({"time_column": "id", "max_disorder": timedelta(1)}, "must be an int"),
        ({"time_column": "id", "max_disorder": -1}, "negative"),
        ({"time_column": "id", "idle_timeout": 5}, "must be a timedelta"),
    ],
)
def test_wrong_event_times(options: dict[str, Any], said: str) -> None:
    with runnel.connect() as connection:
        schema = {"id": "BIGINT", "name": "VARCHAR", "at": "TIMESTAMP"}
        with pytest.raises(ProgrammingError, match=said):
            connection.register_stream("events", schema, **options)
        connection.register_stream("events", schema)
