"""What every connector's tables must do: a connector's tests inherit these classes and say how its
tables are made.

`ReadingConformance` is for tables that are read, `WritingConformance` for those that are written
too, `OptionsConformance` for connectors that CREATE MAPPING opens. Tables under test have a BIGINT
column "id" first, whose values are unique, so that rows can be put in order and maps have a key.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from runnel import sqltypes
from runnel.catalog import Table
from runnel.connector import (
    BATCH_ROWS,
    END,
    Connector,
    MappingDefinition,
    Pause,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    WritableTable,
    WriteMode,
)
from runnel.errors import Error, ProgrammingError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import array_of, python_values
from runnel.expressions.nodes import Call, Column, Expression, Literal
from runnel.processor import JobContext
from runnel.sqltypes import BIGINT, BOOLEAN, VARCHAR, SqlType, to_arrow

Columns = Sequence[tuple[str, SqlType]]
Row = tuple[Any, ...]

VALUES: Mapping[SqlType, list[Any]] = {
    sqltypes.BOOLEAN: [True, False],
    sqltypes.TINYINT: [0, -128, 127],
    sqltypes.SMALLINT: [0, -32_768, 32_767],
    sqltypes.INTEGER: [0, -(2**31), 2**31 - 1],
    sqltypes.BIGINT: [0, -(2**63), 2**63 - 1],
    sqltypes.decimal(38, 10): [
        Decimal("0E-10"),
        Decimal("-1.5000000000"),
        Decimal("9" * 28 + "." + "9" * 10),
    ],
    sqltypes.decimal(9, 2): [Decimal("0.00"), Decimal("-9999999.99")],
    sqltypes.REAL: [0.0, 1.5, -(2.0**100)],
    sqltypes.DOUBLE: [0.0, 0.1, -1e308, 5e-324],
    sqltypes.VARCHAR: [
        "",
        "a",
        "NULL",
        "007",
        'tab\tquote"comma, line\nend',
        "Grüße, 世界 🦀",
        " edges ",
    ],
    sqltypes.VARBINARY: [b"", b"\x00\xff"],
    sqltypes.JSON: ['{"a": [1, null]}', '"text"', "null"],
    sqltypes.DATE: [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)],
    sqltypes.TIME: [time_of_day(0, 0), time_of_day(23, 59, 59, 999_999)],
    sqltypes.TIMESTAMP: [
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(9999, 12, 31),
        datetime(1, 1, 1),
    ],
    sqltypes.TIMESTAMP_TZ: [
        datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
        datetime(2024, 2, 29, tzinfo=UTC),
    ],
    sqltypes.INTERVAL: [timedelta(0), timedelta(days=-1, microseconds=1)],
    sqltypes.array(sqltypes.BIGINT): [[], [1, None, -1]],
    sqltypes.row(("x", sqltypes.BIGINT), ("y", sqltypes.VARCHAR)): [
        {"x": 1, "y": "a"},
        {"x": None, "y": None},
    ],
    sqltypes.map_of(sqltypes.VARCHAR, sqltypes.BIGINT): [{"k": 1}, {"k": None, "l": 2}],
}
"""Values of each type that a table must give back as they are; NULL goes with all of them."""


DEADLINE = 30
"""Seconds within which a partition that returned a `Pause` must wake its reader."""


class OwnResults:
    """Takes what a query's root gives; no connector looks at it."""

    def offer(self, batch: pa.RecordBatch) -> bool:
        return True


def job_context(arguments: Sequence[pa.Scalar] = ()) -> JobContext:
    return JobContext(1, EvaluationContext(arguments), time.monotonic_ns, OwnResults())


def batch_of(columns: Columns, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch in canonical types."""
    arrays = [_array([row[i] for row in rows], item) for i, (_, item) in enumerate(columns)]
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([(name, to_arrow(item)) for name, item in columns])
    )


def _array(values: list[Any], sql_type: SqlType) -> pa.Array:
    if sql_type.kind is sqltypes.Kind.MAP:
        return pa.array(
            [None if value is None else list(value.items()) for value in values], to_arrow(sql_type)
        )
    return array_of(values, sql_type)


def read_partition(partition: SourcePartition) -> list[pa.RecordBatch]:
    """All batches of a partition that has an end."""
    batches, woken = [], Event()
    try:
        partition.open(woken.set)
        while not isinstance(item := partition.read(), type(END)):
            if isinstance(item, Pause):
                assert item.until is None, "a source at rest waits only for a thread of its own"
                assert woken.wait(DEADLINE), "the partition returned a Pause and did not wake"
                woken.clear()
            else:
                batches.append(item)
        assert partition.read() is END, "END is for ever"
    finally:
        partition.close()
    return batches


def read_source(source: Source, arguments: Sequence[pa.Scalar] = ()) -> list[pa.RecordBatch]:
    return [
        batch for part in source.split(job_context(arguments)) for batch in read_partition(part)
    ]


def visible(table: Table) -> tuple[int, ...]:
    """The columns of `*`, by index."""
    return tuple(i for i, column in enumerate(table.columns) if not column.hidden)


def read_batches(
    table: ReadableTable,
    columns: Sequence[int] | None = None,
    predicate: Expression | None = None,
    limit: int | None = None,
) -> list[pa.RecordBatch]:
    chosen = visible(table) if columns is None else tuple(columns)
    return read_source(table.scan(ScanRequest(chosen, predicate, limit)))


def rows_of(batches: Sequence[pa.RecordBatch], types: Sequence[SqlType]) -> list[Row]:
    """Batches as rows of Python values."""
    rows: list[Row] = []
    for batch in batches:
        lists = [python_values(batch.column(i), item) for i, item in enumerate(types)]
        rows.extend(zip(*lists, strict=True) if lists else [()] * batch.num_rows)
    return rows


def read_rows(
    table: ReadableTable, columns: Sequence[int] | None = None, **request: Any
) -> list[Row]:
    chosen = visible(table) if columns is None else columns
    return rows_of(read_batches(table, columns, **request), [table.columns[i].type for i in chosen])


def at_least(bound: int) -> Expression:
    """The condition id >= bound."""
    column = Column(type=BIGINT, index=0, name="id")
    return Call(type=BOOLEAN, function="ge", arguments=(column, Literal(type=BIGINT, value=bound)))


PEOPLE: Columns = (("id", BIGINT), ("name", VARCHAR), ("score", sqltypes.DOUBLE))


def people(count: int) -> list[Row]:
    return [(i, None if i % 7 == 3 else f"name {i}", i / 4) for i in range(count)]


class ReadingConformance:
    """Subclasses are named Test… and define `filled`."""

    types: Sequence[SqlType] = tuple(VALUES)
    """The types that columns of this connector can have; the values of VALUES must survive."""

    repeatable = True
    """Whether a table can be scanned more than once."""

    def filled(self, path: Path, columns: Columns, rows: Sequence[Row]) -> ReadableTable:
        """A table of exactly these columns and rows; `path` is an empty folder."""
        raise NotImplementedError

    @pytest.mark.parametrize("sql_type", VALUES, ids=str)
    def test_values_survive(self, tmp_path: Path, sql_type: SqlType) -> None:
        if sql_type not in self.types:
            pytest.skip(f"no columns of type {sql_type}")
        values = [None, *VALUES[sql_type], None]
        rows = list(enumerate(values))
        table = self.filled(tmp_path, [("id", BIGINT), ("v", sql_type)], rows)
        assert [table.columns[i].type for i in visible(table)] == [BIGINT, sql_type]
        assert sorted(read_rows(table), key=lambda row: row[0]) == rows

    def test_only_nulls(self, tmp_path: Path) -> None:
        rows = [(i, None, None) for i in range(3)]
        assert sorted(read_rows(self.filled(tmp_path, PEOPLE, rows))) == rows

    def test_stored_rows_are_the_scanned_ones(self, tmp_path: Path) -> None:
        table = self.filled(tmp_path, PEOPLE, people(10))
        source = table.scan(ScanRequest((2, 0)))
        stored = source.stored()
        assert (stored is not None) is source.is_stored
        if stored is not None:
            rows = [tuple(row.values()) for batch in stored for row in batch.to_pylist()]
            assert sorted(rows) == [(score, number) for number, _, score in people(10)]

    def test_columns_come_as_asked_for(self, tmp_path: Path) -> None:
        table = self.filled(tmp_path, PEOPLE, people(10))
        assert sorted(read_rows(table, (2, 0))) == [
            (score, number) for number, _, score in people(10)
        ]

    def test_one_column(self, tmp_path: Path) -> None:
        table = self.filled(tmp_path, PEOPLE, people(10))
        assert sorted(read_rows(table, (2,))) == [(score,) for _, _, score in people(10)]

    def test_no_columns_count_rows(self, tmp_path: Path) -> None:
        batches = read_batches(self.filled(tmp_path, PEOPLE, people(10)), ())
        assert [batch.num_columns for batch in batches] == [0] * len(batches)
        assert sum(batch.num_rows for batch in batches) == 10

    def test_no_rows(self, tmp_path: Path) -> None:
        assert read_rows(self.filled(tmp_path, PEOPLE, [])) == []

    def test_batches_are_short_and_canonical(self, tmp_path: Path) -> None:
        count = BATCH_ROWS + 1000
        batches = read_batches(self.filled(tmp_path, PEOPLE, people(count)))
        assert max(batch.num_rows for batch in batches) <= BATCH_ROWS
        assert all(
            batch.schema.types == [to_arrow(item) for _, item in PEOPLE] for batch in batches
        )
        assert sum(batch.num_rows for batch in batches) == count
        for batch in batches:
            batch.validate(full=True)

    def test_a_predicate_loses_no_rows(self, tmp_path: Path) -> None:
        found = read_rows(self.filled(tmp_path, PEOPLE, people(100)), predicate=at_least(90))
        assert set(people(100)[90:]) <= set(found) <= set(people(100))

    def test_a_predicate_on_a_column_not_asked_for(self, tmp_path: Path) -> None:
        found = read_rows(self.filled(tmp_path, PEOPLE, people(100)), (2,), predicate=at_least(90))
        assert {(score,) for _, _, score in people(100)[90:]} <= set(found)

    def test_a_limit_gives_enough_rows(self, tmp_path: Path) -> None:
        found = read_rows(self.filled(tmp_path, PEOPLE, people(100)), limit=5)
        assert 5 <= len(found) <= 100
        assert set(found) <= set(people(100))

    def test_a_limit_behind_a_predicate_gives_enough_rows(self, tmp_path: Path) -> None:
        found = read_rows(
            self.filled(tmp_path, PEOPLE, people(100)), predicate=at_least(50), limit=5
        )
        assert len(set(people(100)[50:]) & set(found)) >= 5

    def test_a_source_is_split_twice(self, tmp_path: Path) -> None:
        if not self.repeatable:
            pytest.skip("can be read once only")
        source = self.filled(tmp_path, PEOPLE, people(100)).scan(ScanRequest((0, 1, 2)))
        first, second = source.split(job_context()), source.split(job_context())
        types = [item for _, item in PEOPLE]
        for partitions in (second, first):
            batches = [batch for part in partitions for batch in read_partition(part)]
            assert sorted(rows_of(batches, types)) == people(100)

    def test_partitions_close_unread(self, tmp_path: Path) -> None:
        source = self.filled(tmp_path, PEOPLE, people(100)).scan(ScanRequest((0,)))
        never_opened, opened = source.split(job_context()), None
        for part in never_opened:
            part.close()
        opened = source.split(job_context())
        for part in opened:
            part.open(lambda: None)
            part.close()
        read = [batch for part in source.split(job_context()) for batch in read_partition(part)]
        assert sum(batch.num_rows for batch in read) == 100

    def test_the_row_count_is_near(self, tmp_path: Path) -> None:
        count = self.filled(tmp_path, PEOPLE, people(100)).row_count()
        assert count is None or 0 <= count <= 1000


class WritingConformance(ReadingConformance):
    """Subclasses define `empty`; reading is tested on what was written."""

    readers_block_writers = False
    """Whether a write waits until every scan that was split before it is closed, as in a database
    that locks its file."""

    def empty(self, path: Path, columns: Columns) -> Any:
        """A table, readable and writable, without rows."""
        raise NotImplementedError

    def filled(self, path: Path, columns: Columns, rows: Sequence[Row]) -> ReadableTable:
        table: ReadableTable = self.empty(path, columns)
        if rows:
            self.write(table, columns, rows)
        return table

    def write(self, table: Any, columns: Columns, rows: Sequence[Row]) -> None:
        sink = self.sink(table)
        batch = batch_of(columns, rows)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            sink.write(batch.slice(start, BATCH_ROWS))
        sink.commit(sink.stage(0))
        sink.close()

    def leftovers(self, path: Path, table: Any) -> list[str]:
        """What staged rows left in the external system, next to the table."""
        return []

    def sink(self, table: WritableTable, columns: Sequence[int] | None = None) -> Sink:
        mode = WriteMode.SINK if WriteMode.SINK in table.write_modes else WriteMode.INSERT
        chosen = visible(table) if columns is None else tuple(columns)
        return table.sink(SinkRequest(mode, chosen))

    def test_rows_show_at_commit(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(5)))
        assert read_rows(table) == []
        token = sink.stage(0)
        assert read_rows(table) == []
        sink.commit(token)
        assert sorted(read_rows(table)) == people(5)
        sink.close()
        assert sorted(read_rows(table)) == people(5)

    def test_a_commit_can_be_repeated(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(5)))
        token = sink.stage(1)
        sink.commit(token)
        sink.commit(token)
        sink.close()
        # A restarted job has the token only.
        other = self.sink(table)
        other.commit(token)
        other.close()
        assert sorted(read_rows(table)) == people(5)

    def test_another_sink_commits_what_is_staged(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(5)))
        token = sink.stage(1)
        other = self.sink(table)
        other.commit(token)
        other.close()
        sink.close()
        assert sorted(read_rows(table)) == people(5)

    def test_epochs_commit_one_after_the_other(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(3)))
        first = sink.stage(1)
        sink.write(batch_of(PEOPLE, people(6)[3:]))
        second = sink.stage(2)
        sink.commit(first)
        assert sorted(read_rows(table)) == people(3)
        sink.commit(second)
        assert sorted(read_rows(table)) == people(6)
        sink.close()

    def test_an_epoch_without_rows(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.commit(sink.stage(1))
        sink.close()
        assert read_rows(table) == []

    @pytest.mark.parametrize("staged", [False, True])
    def test_an_abort_leaves_nothing(self, tmp_path: Path, staged: bool) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(5)))
        sink.abort(sink.stage(1) if staged else None)
        sink.close()
        assert read_rows(table) == []
        self.write(table, PEOPLE, people(2))
        assert sorted(read_rows(table)) == people(2)

    def test_closing_gives_up_what_is_not_committed(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(5)))
        sink.close()
        assert read_rows(table) == []

    def test_closing_discards_rows_staged_without_an_owner(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table)
        sink.write(batch_of(PEOPLE, people(5)))
        sink.stage(1)
        sink.close()
        assert read_rows(table) == []
        assert self.leftovers(tmp_path, table) == []

    def test_a_second_write_adds_rows(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        self.write(table, PEOPLE, people(3))
        self.write(table, PEOPLE, people(6)[3:])
        assert sorted(read_rows(table)) == people(6)

    def test_columns_not_written_are_null(self, tmp_path: Path) -> None:
        table = self.empty(tmp_path, PEOPLE)
        sink = self.sink(table, (2, 0))
        sink.write(batch_of([PEOPLE[2], PEOPLE[0]], [(0.5, 1)]))
        sink.commit(sink.stage(0))
        sink.close()
        assert read_rows(table) == [(1, None, 0.5)]

    def test_a_scan_sees_what_was_there_when_it_began(self, tmp_path: Path) -> None:
        if self.readers_block_writers:
            pytest.skip("no row can be written while a scan is open")
        table = self.empty(tmp_path, PEOPLE)
        self.write(table, PEOPLE, people(3))
        partitions = table.scan(ScanRequest((0,))).split(job_context())
        self.write(table, PEOPLE, people(6)[3:])
        batches = [batch for part in partitions for batch in read_partition(part)]
        assert sorted(rows_of(batches, [BIGINT])) == [(0,), (1,), (2,)]


class OptionsConformance:
    """Subclasses define `connector`, `definition` and `known_option`."""

    known_option = ""
    """The name of an option of the connector that `definition` gives."""

    def connector(self, path: Path) -> Connector:
        raise NotImplementedError

    def definition(self, path: Path) -> MappingDefinition:
        """A sound definition that can be opened."""
        raise NotImplementedError

    def open(self, path: Path, options: Mapping[str, str]) -> None:
        connector = self.connector(path)
        try:
            connector.open(replace(self.definition(path), options=options))
        finally:
            connector.close()

    def test_a_sound_definition_opens(self, tmp_path: Path) -> None:
        connector = self.connector(tmp_path)
        definition = self.definition(tmp_path)
        table = connector.open(definition)
        assert table.name == definition.name
        assert table.connector == connector.name
        connector.close()

    def test_an_unknown_option_is_named_with_the_nearest(self, tmp_path: Path) -> None:
        wrong = self.known_option[:-1] + "q"
        with pytest.raises(ProgrammingError) as caught:
            self.open(tmp_path, {**self.definition(tmp_path).options, wrong: "1"})
        assert f'"{wrong}"' in caught.value.message
        assert f'"{self.known_option}"' in (caught.value.hint or "")

    def test_an_option_given_twice_is_refused(self, tmp_path: Path) -> None:
        options = {**self.definition(tmp_path).options, self.known_option.upper(): "1"}
        with pytest.raises(ProgrammingError, match=self.known_option):
            self.open(tmp_path, options)

    def test_declared_columns_are_those_of_the_table(self, tmp_path: Path) -> None:
        definition = self.definition(tmp_path)
        connector = self.connector(tmp_path)
        table = connector.open(definition)
        shown = [(column.name, column.type) for column in table.columns if not column.hidden]
        assert not definition.columns or shown == [
            (column.name, column.type) for column in definition.columns
        ]
        connector.close()

    def test_a_wrong_definition_is_our_own_error(self, tmp_path: Path) -> None:
        with pytest.raises(Error):
            self.open(
                tmp_path, dict.fromkeys(self.definition(tmp_path).options, "no such thing \0")
            )
