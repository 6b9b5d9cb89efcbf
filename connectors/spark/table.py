"""Spark DataFrames, data sources, tables and queries as tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from runnel.catalog import TableColumn
from runnel.connector import (
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    WritableTable,
    WriteMode,
)
from runnel.connectors.spark.errors import spark_errors
from runnel.connectors.spark.options import SparkOptions
from runnel.connectors.spark.origin import DataFrameOrigin, columns_of, matched, unique_names
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.sink import AppendSink, FilesSink, FrameConverter
from runnel.connectors.spark.source import partitions
from runnel.connectors.spark.types import row_width
from runnel.connectors.spark.versioned_sink import version_sink
from runnel.errors import NotSupportedError
from runnel.processor import Guarantee, JobContext
from runnel.relation.nodes import Field

_UNKNOWN_BYTES = 1 << 60
"""The size that Spark reports if the size is unknown."""


class SparkReadableTable(ReadableTable):
    """Data of `origin`. `problems` has, by index, the reason why a column cannot be read."""

    connector = "Spark"

    def __init__(
        self,
        name: str,
        columns: Sequence[TableColumn],
        origin: DataFrameOrigin,
        owner: SessionOwner,
        problems: dict[int, str],
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.owner = owner
        self._origin = origin
        self._problems = problems

    def check_readable(self, columns: Sequence[int]) -> None:
        """NotSupportedError if one of the columns has no type in Runnel."""
        for index in columns:
            if index in self._problems:
                raise NotSupportedError(
                    f'column "{self.columns[index].name}" of "{self.name}" can\'t be read',
                    detail=self._problems[index],
                    hint="name the columns you need, or convert this one in the DataFrame",
                )


class SparkTable(SparkReadableTable):
    """Data that Spark reads as a table."""

    def __init__(
        self,
        name: str,
        columns: Sequence[TableColumn],
        origin: DataFrameOrigin,
        owner: SessionOwner,
        problems: dict[int, str],
    ) -> None:
        super().__init__(name, columns, origin, owner, problems)
        self._lock = Lock()
        self._own_frame: Any = None
        self._view: str | None = None
        self._rows: int | None = None
        self._is_counted = False

    def own_frame(self, spark: Spark) -> Any:
        """The current rows: columns c0, c1… in Runnel's types."""
        with self._lock:
            frame = self._own_frame
            if frame is None:
                frame = matched(self._origin.frame(spark), self.columns, self.name)
                if self._origin.is_fixed:
                    self._own_frame = frame
        self._count(spark, frame)
        return frame

    def lasting_view(self, spark: Spark) -> str | None:
        """The name of a view of the rows that serves every query; None if each query needs a
        view of its own."""
        if not self._origin.is_fixed:
            return None
        frame = self.own_frame(spark)
        with self._lock:
            if self._view is None:
                self._view = spark.view(frame)
            return self._view

    def row_count(self) -> int | None:
        spark = self.owner.running
        if not self._is_counted and spark is not None:
            with suppress(Exception):  # an estimate: the query will report the error
                self.own_frame(spark)
        return self._rows

    def scan(self, request: ScanRequest) -> Source:
        self.check_readable(request.columns)
        return SparkScan(self, request)

    def withdraw(self) -> None:
        # Running queries were planned, and no longer need the view.
        with self._lock:
            view, self._view = self._view, None
        spark = self.owner.running
        if view is not None and spark is not None:
            spark.drop_view(view)

    def _count(self, spark: Spark, frame: Any) -> None:
        if self._is_counted:
            return
        self._is_counted = True
        with suppress(Exception):
            self._rows, size = spark.statistics(frame)
            if self._rows is None and size is not None:
                width = row_width([column.type for column in self.columns])
                self._rows = None if size >= _UNKNOWN_BYTES else size // width


class SparkSinkTable(SparkTable, WritableTable):
    """A data source or table that Spark can write to."""

    def __init__(
        self,
        name: str,
        columns: Sequence[TableColumn],
        origin: DataFrameOrigin,
        owner: SessionOwner,
        options: SparkOptions,
    ) -> None:
        super().__init__(name, columns, origin, owner, {})
        self.options = options

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """Rows are staged through Spark's driver, which a session of Spark Connect does not
        expose."""
        is_staged = self.stages_files or (self.options.records_numbers and not self.owner.is_remote)
        return Guarantee.EXACTLY_ONCE if is_staged else Guarantee.AT_LEAST_ONCE

    @property
    def stages_files(self) -> bool:
        """Whether files are written next to their final folder, and then moved."""
        return self.options.is_file_format and not self.owner.is_remote

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        """A sink for the columns of the request; the other columns become NULL."""
        self._is_counted = False
        spark = self.owner.get()
        rows = FrameConverter(spark, self.columns, request)
        if self.stages_files:
            return FilesSink(spark, rows, self.options, request.owner)
        if request.owner and self.guarantee is Guarantee.EXACTLY_ONCE:
            return version_sink(spark, rows, self.options, request.owner)
        return AppendSink(spark, rows, self.options, is_durable=bool(request.owner))


class SparkScan(Source):
    """The requested columns of one table. Nothing runs before the scan is split."""

    def __init__(self, table: SparkTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table, request = self._table, self._request
        spark = table.owner.get()
        limit = request.limit if request.predicate is None else None
        with spark_errors():
            frame = table.own_frame(spark)
            # A selection, even of all columns, since a plan whose shuffle was cancelled never runs
            # again. For the number of rows any column will do.
            names = [f"c{i}" for i in request.columns]
            frame = spark.selected(frame, names) if names else frame.selectExpr("TRUE AS c0")
            if limit is not None:
                frame = spark.first_rows(frame, limit)
        fields = [Field(table.columns[i].name, table.columns[i].type) for i in request.columns]
        return partitions(
            spark.fetch(frame, is_ordered=False, description=f"scan of {table.name}"), fields, limit
        )


def table_of_frame(
    name: str, frame: Any, origin: DataFrameOrigin, owner: SessionOwner
) -> SparkTable:
    """The table of a DataFrame, with its columns inferred."""
    columns, problems = found_columns(frame)
    return SparkTable(name, columns, origin, owner, problems)


def found_columns(frame: Any) -> tuple[list[TableColumn], dict[int, str]]:
    """The columns of a DataFrame in Runnel's types, and the reasons why some of them cannot be
    read."""
    spark_columns = columns_of(frame)
    names = unique_names([column.name for column in spark_columns])
    columns = [
        TableColumn(name, column.type) for name, column in zip(names, spark_columns, strict=True)
    ]
    return columns, {
        index: column.problem
        for index, column in enumerate(spark_columns)
        if column.problem is not None
    }
