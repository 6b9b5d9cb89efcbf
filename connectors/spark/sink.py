"""Writes through Spark by the contract of sinks: nothing is visible before the commit.

Rows are sent to Spark as Arrow data, some tens of megabytes at a time. For Spark's file formats
each chunk is written to a folder next to the data whose name starts with '_', which Spark's readers
ignore. The commit moves the files to their final folder, each atomically. The names of a durable
job's folders contain its mark: its next execution moves the files that the snapshot lists, and
removes the other folders.

For a table or another data source the chunks are retained as DataFrames, and the commit is one
append by that source's writer: as atomic as the source is, and not repeatable after a partial
failure. DataFrames do not outlive the process, so a durable job appends before the snapshot is
complete: after a failure rows may be written twice, but none is lost.
"""

from __future__ import annotations

import hashlib
import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token
from runnel.connectors.spark.errors import spark_errors
from runnel.connectors.spark.options import SparkOptions
from runnel.connectors.spark.origin import schema_text
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.types import ddl, quoted
from runnel.errors import OperationalError, ProgrammingError
from runnel.sqltypes import Kind, to_arrow
from runnel.storage.durable_files import sync_file, sync_folder

CHUNK_BYTES = 64 << 20
"""The number of bytes that are gathered before they are sent to Spark."""

STAGING_PREFIX = "_runnel-"

logger = logging.getLogger("runnel.connectors.spark")


class FrameConverter:
    """The batches of a request as DataFrames with all columns of the table, under their Spark
    names."""

    def __init__(self, spark: Spark, columns: Sequence[TableColumn], request: SinkRequest) -> None:
        self._spark = spark
        self._columns = columns
        self._positions = {index: position for position, index in enumerate(request.columns)}
        for column in columns:
            ddl(column.type)  # refuses what Spark has no type for

    def frame(self, batches: Sequence[pa.RecordBatch]) -> Any:
        """One DataFrame of some batches."""
        table = pa.Table.from_batches([self._travelling(batch) for batch in batches])
        frame = self._spark.made(table, [column.type for column in self._columns])
        return frame.selectExpr(*[_arriving(column, i) for i, column in enumerate(self._columns)])

    def empty(self) -> Any:
        """A DataFrame without rows."""
        return self._spark.own.createDataFrame([], schema=schema_text(self._columns))

    def staged(self, folder: str) -> Any:
        """The DataFrame of rows that were written to Parquet files in a folder."""
        return self._spark.own.read.schema(schema_text(self._columns)).parquet(folder)

    def arriving(self, frame: Any) -> Any:
        """A DataFrame with all columns of the table, from one with the request's columns."""
        return frame.selectExpr(
            *[_arriving(column, self._positions.get(i)) for i, column in enumerate(self._columns)]
        )

    def _travelling(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for index, column in enumerate(self._columns):
            position = self._positions.get(index)
            array = (
                pa.nulls(batch.num_rows, to_arrow(column.type))
                if position is None
                else batch.column(position)
            )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])


def _arriving(column: TableColumn, index: int | None) -> str:
    """Spark's expression for a column of the table from the received `c<index>`, or NULL."""
    if index is None:
        return f"CAST(NULL AS {ddl(column.type)}) AS {quoted(column.external_name or column.name)}"
    value = f"`c{index}`"
    if column.type.kind is Kind.INTERVAL:
        value = f"MAKE_DT_INTERVAL(0, 0, 0, CAST({value} AS DECIMAL(20, 0)) / 1000000)"
    elif column.type.kind is Kind.INTERVAL_MONTH:
        value = f"MAKE_YM_INTERVAL(0, {value})"
    return f"{value} AS {quoted(column.external_name or column.name)}"


class GatheringSink(Sink):
    """Gathers batches and writes them in chunks."""

    def __init__(self, spark: Spark, rows: FrameConverter) -> None:
        self._spark = spark
        self._rows = rows
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        batches, self._batches, self._bytes = self._batches, [], 0
        if batches:
            with spark_errors():
                self._write_chunk(self._rows.frame(batches))

    def write_frame(self, frame: Any) -> Callable[[], int]:
        """Accepts the rows of a DataFrame: the request's columns as c0, c1…, in their transport
        types.

        Returns a function that returns their number once they are staged.
        """
        with spark_errors():
            # Counted by an observation, since Spark's own counting would copy each row.
            counted, count = self._spark.counted(self._rows.arriving(frame))
            self._write_chunk(counted)
            return count

    @abstractmethod
    def _write_chunk(self, frame: Any) -> None:
        """Writes a chunk of rows."""


class FilesSink(GatheringSink):
    """Writes files of one of Spark's formats into a folder."""

    def __init__(
        self, spark: Spark, rows: FrameConverter, options: SparkOptions, owner: str
    ) -> None:
        super().__init__(spark, rows)
        assert options.path is not None
        self._mark = hashlib.sha256(owner.encode()).hexdigest()[:16] + "-" if owner else ""
        self._options = options
        self._folder = options.path.rstrip("/") or "/"
        if any(mark in self._folder for mark in "*?[{"):
            raise ProgrammingError(
                f'rows can\'t be written to the pattern "{options.path}"',
                hint="create a mapping on the folder itself",
            )
        self._files = FileSystem(spark, self._folder)
        if self._files.is_file(self._folder):
            raise OperationalError(
                f'"{options.path}" is a file, to which rows can\'t be added',
                hint="create a mapping on the folder that holds it",
            )
        self._staging = ""
        self._staged: list[str] = []

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            gone = [
                final
                for pair in token["renames"]
                for final in pair[1:]
                if not any(map(self._files.exists, pair))
            ]
            for final in gone:
                logger.warning(
                    'file "%s" was written by a job and has been taken away since', final
                )
            self.commit(
                {**token, "renames": [pair for pair in token["renames"] if pair[1] not in gone]}
            )
        for name in self._files.folders(self._folder) if self._mark else ():
            if name.startswith(STAGING_PREFIX + self._mark):
                self._remove(f"{self._folder}/{name}")

    def _write_chunk(self, frame: Any) -> None:
        if not self._staging:
            self._staging = f"{self._folder}/{STAGING_PREFIX}{self._mark}{uuid4().hex}"
        writer = (
            frame.write.format(self._options.format).mode("append").options(**self._options.passed)
        )
        writer.save(self._staging)

    def stage(self, epoch: int) -> Token:
        self._flush()
        staging, self._staging = self._staging, ""
        if not staging:
            return {"staging": None, "renames": []}
        self._staged.append(staging)
        names = [name for name in self._files.names(staging) if not name.startswith(("_", "."))]
        self._files.sync(staging, names)
        self._files.sync(self._folder)
        return {
            "staging": staging,
            "renames": [[f"{staging}/{name}", f"{self._folder}/{name}"] for name in names],
        }

    def commit(self, token: Token) -> None:
        for staged, final in token["renames"]:
            if not self._files.move(staged, final):
                raise OperationalError(
                    f'staged file "{staged}" is gone', hint="run the statement again"
                )
        if token["renames"]:
            self._files.sync(self._folder)
        if token["staging"]:
            self._remove(token["staging"])

    def abort(self, token: Token | None) -> None:
        if token is None:
            self.close()
        elif token["staging"]:
            self._remove(token["staging"])

    def close(self) -> None:
        self._batches = []
        given_up = [] if self._mark else list(self._staged)
        for staging in [*given_up, *([self._staging] if self._staging else [])]:
            self._remove(staging)
        self._staging = ""

    def _remove(self, staging: str) -> None:
        with suppress(Exception):  # no reader reads it, so leftover files do no harm
            self._files.delete(staging)
        if staging in self._staged:
            self._staged.remove(staging)


class FileSystem:
    """The file system of a path, accessed through Spark: local, HDFS, S3…"""

    def __init__(self, spark: Spark, path: str) -> None:
        context = spark.context
        self._path = context._jvm.org.apache.hadoop.fs.Path
        with spark_errors():
            self._system = self._path(path).getFileSystem(
                spark.own._jsparkSession.sessionState().newHadoopConf()
            )

    def is_file(self, path: str) -> bool:
        with spark_errors():
            place = self._path(path)
            return bool(self._system.exists(place) and self._system.getFileStatus(place).isFile())

    def exists(self, path: str) -> bool:
        with spark_errors():
            return bool(self._system.exists(self._path(path)))

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder; none if it does not exist."""
        with spark_errors():
            if not self._system.exists(self._path(folder)):
                return []
            return sorted(
                item.getPath().getName()
                for item in self._system.listStatus(self._path(folder))
                if item.isDirectory()
            )

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder."""
        with spark_errors():
            return sorted(
                item.getPath().getName()
                for item in self._system.listStatus(self._path(folder))
                if item.isFile()
            )

    def move(self, source: str, target: str) -> bool:
        """Renames a file to its final name; True also if this was done before."""
        with spark_errors():
            if not self._system.exists(self._path(source)):
                return bool(self._system.exists(self._path(target)))
            if not self._system.rename(self._path(source), self._path(target)):
                raise OperationalError(f'file "{source}" can\'t be renamed to "{target}"')
            return True

    def sync(self, folder: str, names: Sequence[str] = ()) -> None:
        """Makes the names in a folder, and the content of some of its files, survive a power loss.

        Only the local file system needs it: others are durable when they have answered.
        """
        with spark_errors():
            if self._system.getScheme() != "file":
                return
            place = Path(self._path(folder).toUri().getPath())
        if not place.is_dir():
            return
        for name in names:
            with (place / name).open("rb") as file:
                sync_file(file.fileno())
        sync_folder(place)

    def delete(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)


class AppendSink(GatheringSink):
    """Appends to a table of Spark's catalog, or to a data source, in one write.

    It writes at the commit, or for a durable job when the rows are staged.
    """

    def __init__(
        self, spark: Spark, rows: FrameConverter, options: SparkOptions, *, is_durable: bool
    ) -> None:
        super().__init__(spark, rows)
        self._is_durable = is_durable
        self._options = options
        self._frames: list[Any] = []
        self._staged: dict[str, list[Any]] = {}

    def _write_chunk(self, frame: Any) -> None:
        self._frames.append(frame)

    def stage(self, epoch: int) -> Token:
        self._flush()
        parts, self._frames = self._frames, []
        if self._is_durable:
            if parts:
                self._append(parts)
            return {"parts": None}
        key = uuid4().hex
        self._staged[key] = parts
        return {"parts": key if parts else None}

    def commit(self, token: Token) -> None:
        key = token["parts"]
        if key is None:
            return
        parts = self._staged.pop(key, None)
        if parts is None:
            return  # committed before
        self._append(parts)

    def _append(self, parts: Sequence[Any]) -> None:
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        options = self._options
        with spark_errors():
            if options.table is not None:
                self._append_to_table(frame, options.table)
                return
            writer = frame.write.format(options.format).mode("append").options(**options.passed)
            writer.save() if options.path is None else writer.save(options.path)

    def _append_to_table(self, frame: Any, table: str) -> None:
        # By name: the mapping's columns may have another order than the table's, and may be only
        # some of them.
        self._spark.insert(frame, table)
        # The session that reads tables may have cached the table's files.
        self._spark.session.catalog.refreshTable(table)

    def abort(self, token: Token | None) -> None:
        if token is None:
            self.close()
        elif token["parts"]:
            self._staged.pop(token["parts"], None)

    def close(self) -> None:
        self._batches = []
        self._frames = []
        self._staged = {}
