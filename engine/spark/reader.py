"""Spark reads a Runnel query: once or as a stream, in one or several partitions by a column.

Each partition is a separate statement, and reads the rows that exist when the statement starts. A
stream is read by a column whose values only grow: the rows of an interval of the column never
change, so a micro-batch that Spark repeats after a failure has the same rows.

The readers do not implement `pushFilters`, because Spark 4.3 applies the filters of a DataFrame's
first query to its later queries as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import IntegralType, StructType

from runnel.errors import DataError, Error, ProgrammingError, as_written, suggest
from runnel.spark.request import NAME, ReadRequest, plainly, quoted

MOST_PARTITIONS = 10_000
"""Upper bound of the option `numPartitions`."""


class ReadPartition(InputPartition):
    """A partition, described by the statement that reads its rows and the arguments of it."""

    def __init__(self, sql: str, arguments: Sequence[Any]) -> None:
        super().__init__((sql, tuple(arguments)))


class Reader(DataSourceReader):
    """Reads a query once. Spark pickles it for the executors, so it has no connection."""

    def __init__(self, request: ReadRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        self._select = f"SELECT {_columns(schema)} FROM {request.rows}"
        self._count = request.number("numPartitions", 1, 1) or 1
        self._column = _integer_column(request, schema, "partitionColumn")
        if self._count > 1 and self._column is None:
            raise ProgrammingError(
                f"data source {NAME} reads several partitions by a column of integers",
                hint='add .option("partitionColumn", …), or leave numPartitions out',
            )
        if self._count > MOST_PARTITIONS:
            raise ProgrammingError(
                f'option "numPartitions" of data source {NAME} is at most {MOST_PARTITIONS}'
            )

    def partitions(self) -> Sequence[InputPartition]:
        arguments = self._request.arguments
        if self._column is None or self._count == 1:
            return [ReadPartition(self._select, arguments)]
        name = quoted(self._column)
        partitions = []
        for number in range(self._count):
            # The remainder has the sign of the value, so -7 % 4 is -3 and belongs to partition 1.
            # Rows with NULL belong to partition 0.
            condition = f"({name} % {self._count} + {self._count}) % {self._count} = {number}"
            condition = f"{condition} OR {name} IS NULL" if number == 0 else condition
            partitions.append(ReadPartition(f"{self._select} WHERE {condition}", arguments))
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(self._request, partition, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the new rows of a query as micro-batches.

    An offset is a value of the column `offsetColumn`. A micro-batch has the rows whose value is
    above its start offset and at most its end offset.
    """

    def __init__(self, request: ReadRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        column = _integer_column(request, schema, "offsetColumn")
        if column is None:
            raise ProgrammingError(
                f"data source {NAME} reads a stream by a column of integers that only grows",
                detail="a micro-batch that is repeated must have the same rows",
                hint='add .option("offsetColumn", …)',
            )
        self._column = column
        self._select = f"SELECT {_columns(schema)} FROM {request.rows}"
        self._count = request.number("numPartitions", 1, 1) or 1
        self._first = request.number("startingOffset", -(2**63))
        self._most = request.number("maxOffsetsPerTrigger", 1)
        self._is_ending = self._is_checked = False
        self._last: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The first micro-batch has the rows above `startingOffset`, without it all rows."""
        return {"offset": self._first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Ends the stream at the largest offset that exists now."""
        self._is_ending, self._last = True, self._bounds(None)[1]

    @plainly
    def _bounds(self, after: int | None) -> tuple[int | None, int | None]:
        """The smallest and the largest offset above `after` (None: of all rows); None if there are
        no such rows."""
        name = quoted(self._column)
        sql = f"SELECT MIN({name}), MAX({name}) FROM {self._request.rows}"
        bound = () if after is None else (after,)
        with self._request.server.connect() as con, con.cursor() as cursor:
            cursor.execute(
                sql + (f" WHERE {name} > ?" if bound else ""), (*self._request.arguments, *bound)
            )
            _check_bounded(cursor)
            least, largest = cursor.fetchone()
            if largest is not None or not self._is_checked:
                self._check_offsets(cursor)
        return least, largest

    def _check_offsets(self, cursor: Any) -> None:
        """DataError if the offset of a row is NULL, because such a row would never be read.

        The check scans the whole column, so it runs only if there are new rows.
        """
        cursor.execute(
            f"SELECT 1 FROM {self._request.rows} WHERE {quoted(self._column)} IS NULL LIMIT 1",
            self._request.arguments,
        )
        if cursor.fetchone() is not None:
            raise DataError(
                f'there are rows whose "{self._column}", '
                f'the option "offsetColumn" of data source {NAME}, is NULL',
                detail="a row without an offset is in no micro-batch, and would never be read",
                hint=(
                    f"leave them out in the query, WHERE {as_written(self._column)} IS NOT NULL, "
                    "or replace NULL by an offset"
                ),
            )
        self._is_checked = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        least, largest = self._bounds(start["offset"])
        if largest is not None and self._is_ending:
            largest = None if self._last is None else min(largest, self._last)
        if least is None or largest is None or largest < least:
            return start
        if isinstance(limit, ReadMaxRows):
            # An interval of n integers has at most n rows, if no two rows have the same offset.
            largest = min(largest, least + limit.max_rows - 1)
        return {"offset": largest}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = start["offset"], end["offset"]
        if last is None or first == last:
            return []
        name, arguments = quoted(self._column), self._request.arguments
        if first is None:
            return [ReadPartition(f"{self._select} WHERE {name} <= ?", (*arguments, last))]
        count = min(self._count, last - first)
        cuts = [first + (last - first) * i // count for i in range(count + 1)]
        sql = f"{self._select} WHERE {name} > ? AND {name} <= ?"
        return [ReadPartition(sql, (*arguments, *cut)) for cut in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(self._request, partition, self._schema)


def rows_of(
    request: ReadRequest, partition: InputPartition, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, converted to the types of `schema`."""
    sql, arguments = partition.value
    expected = to_arrow_schema(schema, timezone="UTC")
    try:
        with request.server.connect() as con, con.cursor() as cursor:
            cursor.execute(sql, arguments)
            _check_bounded(cursor)
            for batch in cursor.fetch_record_batch():
                if batch.num_rows:
                    arrays = [
                        _as_expected(column, field)
                        for column, field in zip(batch.columns, expected, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=expected.names)
    except Error as error:
        raise error.with_traceback(None) from None


def _as_expected(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column in the type that Spark expects. The type differs from the column's if the user
    passed a schema to Spark."""
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ProgrammingError(
            f'column "{field.name}" can\'t be read as {field.type}: it is {column.type}',
            detail=str(error),
            hint=f"leave the schema out, or read CAST({as_written(field.name)} AS …)",
        ) from None


def _check_bounded(cursor: Any) -> None:
    if cursor.is_unbounded:
        raise ProgrammingError(
            f"data source {NAME} can't read a query without end",
            detail="Spark reads a batch to its end, and repeats one after a failure",
            hint=(
                "have a job write its rows to a table with a column that only grows, "
                "and read that table"
            ),
        )


def _columns(schema: StructType) -> str:
    return ", ".join(quoted(name) for name in schema.names)


def _integer_column(request: ReadRequest, schema: StructType, option: str) -> str | None:
    """The name of the column that an option names, None without the option; ProgrammingError
    unless the column has integers."""
    name = request.text(option)
    if name is None:
        return None
    found = next((field for field in schema.fields if field.name.lower() == name.lower()), None)
    if found is None:
        raise ProgrammingError(
            f'column "{name}" of option "{option}" not found', hint=suggest(name, schema.names)
        )
    if not isinstance(found.dataType, IntegralType):
        raise ProgrammingError(f'column "{name}" of option "{option}" is no column of integers')
    return str(found.name)
