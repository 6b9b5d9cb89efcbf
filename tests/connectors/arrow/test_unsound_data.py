"""Arrow data that breaks its own rules is a DataError where it comes in: never other rows, never
the end of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel import Connection

VALUES = pa.array(range(5))
TWO = pa.py_buffer(b"\xff\xfe")


def integers(values: list[int], kind: str) -> pa.Buffer:
    return pa.py_buffer(np.array(values, kind).tobytes())


def made(
    kind: pa.DataType, *buffers: pa.Buffer, rows: int = 1, children: list[pa.Array] | None = None
) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, *buffers], children=children)


def indexed(index: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array([0, index], pa.int32()), pa.array(["a"]), safe=False
    )


UNSOUND: dict[str, Callable[[], pa.Array]] = {
    "a time of more than a day": lambda: made(pa.time64("us"), integers([10**15], "i8")),
    "a time before midnight": lambda: made(pa.time64("us"), integers([-1], "i8")),
    "nanoseconds of more than a day": lambda: made(pa.time64("ns"), integers([10**18], "i8")),
    "seconds of more than a day": lambda: made(pa.time32("s"), integers([10**6], "i4")),
    "an index beyond the dictionary": lambda: indexed(7),
    "an index below zero": lambda: indexed(-5),
    "text that isn't UTF-8": lambda: made(pa.string(), integers([0, 2], "i4"), TWO),
    "large text that isn't UTF-8": lambda: made(pa.large_string(), integers([0, 2], "i8"), TWO),
    "offsets that go back": lambda: made(
        pa.string(), integers([0, 5, 2], "i4"), pa.py_buffer(b"abcde"), rows=2
    ),
    "lists that go back": lambda: made(
        pa.list_(pa.int64()), integers([0, 5, 2], "i4"), rows=2, children=[VALUES]
    ),
    "text in a struct": lambda: pa.StructArray.from_arrays(
        [UNSOUND["text that isn't UTF-8"]()], names=["a"]
    ),
    "a decimal beyond its precision": lambda: made(
        pa.decimal128(5, 2), integers([2**62, 2**62], "i8")
    ),
}


def through_registration(connection: Connection, table: pa.Table) -> Any:
    connection.register("t", table)
    return connection.execute("SELECT * FROM t").fetchall()


def through_a_reader(connection: Connection, table: pa.Table) -> Any:
    connection.register("t", table.to_reader())
    return connection.execute("SELECT * FROM t").fetchall()


def through_duckdb(connection: Connection, table: pa.Table) -> Any:
    connection.execute("SET fragment_rows = 0")
    connection.register("t", table)
    return connection.execute("SELECT COUNT(*) FROM (SELECT DISTINCT c FROM t)").fetchall()


def through_a_stream(connection: Connection, table: pa.Table) -> Any:
    writer = connection.register_stream("s", table.schema)
    cursor = connection.execute("SELECT * FROM s")
    writer.write(table)
    writer.close()
    return cursor.fetchall()


def through_a_function(connection: Connection, table: pa.Table) -> Any:
    connection.register("n", pa.table({"x": list(range(table.num_rows))}))
    connection.create_function(
        "f",
        lambda x: table.column(0).chunk(0),
        ["BIGINT"],
        result_type(table.schema.field(0).type),
        type="arrow",
    )
    return connection.execute("SELECT f(x) FROM n").fetchall()


def result_type(kind: pa.DataType) -> Any:
    return "VARCHAR" if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind) else kind


WAYS = (
    through_registration,
    through_a_reader,
    through_duckdb,
    through_a_stream,
    through_a_function,
)


@pytest.mark.parametrize("name", UNSOUND)
def test_unsound_data_is_refused(name: str) -> None:
    table = pa.table({"c": UNSOUND[name]()})
    for way in WAYS:
        if way is through_duckdb and pa.types.is_nested(table.schema.field(0).type):
            continue
        with (
            runnel.connect() as connection,
            pytest.raises(runnel.DataError, match="isn't sound Arrow data"),
        ):
            way(connection, table)


def test_two_fields_of_one_name() -> None:
    pair = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    table = pa.table({"c": pair, "d": [3]})
    with runnel.connect() as connection:
        for way in (through_registration, through_a_stream):
            with pytest.raises(runnel.NotSupportedError) as caught:
                way(connection, table)
            assert "two fields of one name" in str(caught.value)
        assert connection.execute("SELECT d FROM t").fetchall() == [(3,)]


def test_only_what_is_read_is_looked_at(connection: Connection) -> None:
    unsound = UNSOUND["offsets that go back"]()
    connection.register("t", pa.table({"good": [1, 2], "bad": unsound}))
    assert connection.execute("SELECT good FROM t").fetchall() == [(1,), (2,)]
    for _ in range(2):
        with pytest.raises(runnel.DataError, match='registered column "bad"'):
            connection.execute("SELECT good, bad FROM t").fetchall()


@pytest.mark.parametrize("timeout", [10**400, 1e308, float("inf")])
def test_times_of_waiting_that_are_as_good_as_for_ever(
    connection: Connection, timeout: float
) -> None:
    rows = connection.execute(
        "SELECT COUNT(*) FROM TABLE(GENERATE_SERIES(1, 10))", timeout=timeout
    ).fetchall()
    assert rows == [(10,)]
    writer = connection.register_stream("s", {"a": "BIGINT"})
    cursor = connection.execute("SELECT a FROM s")
    (job,) = connection.jobs()
    assert writer.write([(1,)], timeout=timeout) == 1
    cursor.close()
    assert job.wait(timeout)


@pytest.mark.parametrize("timeout", [float("nan"), -1, "1", True])
def test_times_that_are_none(connection: Connection, timeout: Any) -> None:
    writer = connection.register_stream("s", {"a": "BIGINT"})
    cursor = connection.execute("SELECT a FROM s")
    (job,) = connection.jobs()
    waits: list[Callable[[], object]] = [
        lambda: connection.execute("SELECT 1", timeout=timeout),
        lambda: writer.write([(1,)], timeout=timeout),
        lambda: job.wait(timeout),
    ]
    for wait in waits:
        with pytest.raises(runnel.InterfaceError, match="timeout must be a number of seconds"):
            wait()
    cursor.close()
