"""Rows that a program writes a few at a time are kept as tuples until a reader takes them. What
readers get is what converting each write would give."""

from __future__ import annotations

import random
import sys
from datetime import UTC, date, datetime
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel.catalog import TableColumn
from runnel.connectors.pushed.plain_rows import FEW_ROWS, RowForm
from runnel.connectors.pushed.rows import row_batch
from runnel.connectors.pushed.table import PlainRows, ReaderQueue
from runnel.errors import DataError
from runnel.sqltypes import Kind, SqlType

KINDS = (
    Kind.TINYINT,
    Kind.SMALLINT,
    Kind.INTEGER,
    Kind.BIGINT,
    Kind.DOUBLE,
    Kind.BOOLEAN,
    Kind.VARCHAR,
    Kind.DATE,
    Kind.TIMESTAMP,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -128,
    127,
    128,
    2**15,
    2**31 - 1,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "text",
    "Grüße",
    "\ud800",
    "12",
    date(2026, 1, 2),
    datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime(2026, 1, 2, tzinfo=UTC),
    np.int64(5),
    np.float32(0.5),
    b"bytes",
)
RARE = (-128, 128, 2**15, 2**31 - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, "Grüße", "\ud800")
"""Values that not all columns of their class keep."""
COLUMNS = tuple(TableColumn(kind.name, SqlType(kind)) for kind in KINDS)
FORM = RowForm.of(COLUMNS)
CLASSES = {
    Kind.DOUBLE: float,
    Kind.BOOLEAN: bool,
    Kind.VARCHAR: str,
    Kind.DATE: date,
    Kind.TIMESTAMP: datetime,
}


def converted(rows: list[Any]) -> pa.RecordBatch | None:
    """The rows as a batch; None if they don't fit."""
    try:
        return row_batch(rows, COLUMNS, "s")
    except DataError:
        return None


def same(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Equal, where NaN equals itself."""
    return left.schema == right.schema and repr(left.to_pylist()) == repr(right.to_pylist())


def random_row(source: random.Random) -> Any:
    """Mostly values of the column's own class, as others are rarely kept."""
    row = []
    for kind in KINDS:
        fitting = [v for v in VALUES if type(v) is CLASSES.get(kind, int) and v not in RARE]
        row.append(source.choice([None, *fitting] if source.random() < 0.96 else VALUES))
    form = source.randrange(4)
    if form == 0:
        return row
    if form == 1:
        names = [kind.name for kind in KINDS]
        if source.random() < 0.2:
            names[0] = source.choice(("tinyint", "other"))
        return dict(zip(names, row, strict=True))
    return tuple(row if source.random() < 0.98 else row[1:])


@pytest.mark.parametrize("seed", range(8))
def test_kept_rows_are_what_converting_them_gives(seed: int) -> None:
    source = random.Random(seed)
    assert FORM is not None
    kept = 0
    for _ in range(500):
        row = random_row(source)
        found = FORM.few([row])
        if found is not None:
            kept += 1
            expected = converted([row])
            assert expected is not None, row
            assert same(FORM.batch(found.rows, range(len(COLUMNS))), expected)
    assert kept > 50


def test_rows_that_are_kept_together_are_converted_together() -> None:
    source = random.Random(1)
    assert FORM is not None
    queue = ReaderQueue([8, 3, 0])
    written = []
    while len(written) < 300:
        row = random_row(source)
        few = FORM.few((row,))
        if few is not None:
            queue.put(few)
            written += few.rows
    taken = queue.take()
    assert isinstance(taken, list)
    assert [type(item) for item in taken] == [PlainRows]
    expected = row_batch(written, COLUMNS, "s").select([8, 3, 0])
    assert same(queue.joined(taken), expected)
    assert queue.rows == 0


@pytest.mark.parametrize(
    "data",
    [
        [],
        [(1,)] * (FEW_ROWS + 1),
        "text",
        b"text",
        [("a",)],
        [(True,)],
        [(2**31,)],
        [(1, 2)],
        [{"b": 1}],
        [{"N": 1}],
        [1],
        [np.array([1])],
        ({"n": 1}, (1, 2)),
        pa.table({"n": [1]}),
    ],
    ids=str,
)
def test_others_are_converted_when_they_are_written(data: Any) -> None:
    form = RowForm.of([TableColumn("n", SqlType(Kind.INTEGER))])
    assert form is not None
    assert form.few(data) is None


@pytest.mark.parametrize("kind", [Kind.DECIMAL, Kind.REAL, Kind.JSON, Kind.TIME, Kind.TIMESTAMP_TZ])
def test_a_stream_with_other_types_converts_each_write(kind: Kind) -> None:
    assert (
        RowForm.of([TableColumn("n", SqlType(Kind.INTEGER)), TableColumn("x", SqlType(kind))])
        is None
    )


def test_readers_get_rows_and_batches_in_order() -> None:
    with runnel.connect() as connection:
        writer = connection.register_stream("s", {"n": "INTEGER", "t": "VARCHAR"})
        first = connection.cursor().execute("SELECT t, n FROM s")
        second = connection.cursor().execute("SELECT n FROM s WHERE t IS NOT NULL")
        third = connection.cursor().execute("SELECT 1 FROM s")
        row = [1, "a"]
        assert writer.write([row]) == 1
        row[0] = 100  # the row was written already
        assert writer.write({"n": 2}) == 1
        assert writer.write(pa.table({"n": pa.array([3], pa.int32()), "t": ["c"]})) == 1
        assert writer.write([(4, "d"), [5, "e"]]) == 2
        with pytest.raises(DataError, match='column "n"'):
            writer.write([(2**31, "x")])
        writer.close()
        assert first.fetchall() == [("a", 1), (None, 2), ("c", 3), ("d", 4), ("e", 5)]
        assert second.fetchall() == [(1,), (3,), (4,), (5,)]
        assert third.fetchall() == [(1,)] * 5


def test_the_calls_of_a_conversion_do_not_grow_with_the_rows() -> None:
    form = RowForm.of([TableColumn(n, SqlType(Kind.BIGINT)) for n in "abc"])
    assert form is not None
    counts = []
    for rows in (8, 64):
        found = form.few([(i, None, -i) for i in range(rows)])
        assert found is not None
        calls = 0

        def note(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            batch = form.batch(found.rows, (0, 1, 2))
        finally:
            sys.setprofile(before)
        assert batch.num_rows == rows
        counts.append(calls)
    assert counts[0] == counts[1]
