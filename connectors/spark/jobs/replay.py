"""The input of a job over streams on Spark, read again: each stream up to the last written batch,
as a bounded table.

After each batch, Spark's checkpoint has the position in each source, in a format of the source.
Therefore the source itself is used: a streaming query over the stream alone starts with a
checkpoint according to which nothing was read yet, and the first batch ends at that position. Its
rows are read like the rows of any DataFrame; then the query ends, before it starts a second batch.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.parse import unquote, urlparse
from uuid import uuid4

import pyarrow as pa

from runnel.connector import END, End, Pause, ReadableTable, ScanRequest, Source, SourcePartition
from runnel.connectors.spark.errors import spark_error, spark_errors
from runnel.connectors.spark.session.session import CHECKPOINT_ELSEWHERE
from runnel.connectors.spark.source import partitions
from runnel.connectors.spark.stream import SparkStreamTable
from runnel.deadline import current
from runnel.errors import Error, ErrorCode, NotSupportedError, OperationalError, internal
from runnel.foreign.job_runtime import ReadInput
from runnel.processor import JobContext
from runnel.relation.nodes import Field, Relation, Scan, walk

FOLDER = "replays"
"""The folder with the checkpoints of replays, next to the checkpoint of the job."""
NOTHING = "-"
"""Spark's text for a source that had no data yet."""

_KNOWN = "v1"


class BatchStopped(Exception):
    """Ends a batch for a reason that this module knows."""


class BatchStoppedFilter(logging.Filter):
    """Keeps py4j from logging how a batch was ended."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BatchStopped))


BATCH_STOPPED_FILTER = BatchStoppedFilter()


def read_input(relation: Relation, checkpoint: Path, written: int) -> ReadInput | None:
    """The input that a job's query has read up to its last batch.

    `written` is the number of the last batch that had rows, from 1 on.
    """
    elsewhere = checkpoint / CHECKPOINT_ELSEWHERE
    if elsewhere.exists():
        raise NotSupportedError(
            "the positions of the job in its streams are unknown: "
            "the Spark Connect server stores its checkpoint",
            detail=f"it is at {elsewhere.read_text('utf-8')}",
            hint=(
                "a job whose checkpoint is in the connection's directory can be verified: with a "
                "server on this computer, in a session without "
                "spark.sql.streaming.checkpointLocation"
            ),
        )
    done = [int(item.name) for item in _entries(checkpoint / "commits") if item.name.isdecimal()]
    batch = max([written - 1, *done])
    if batch < 0:
        return None
    lines = _offsets(checkpoint, batch)
    tables = [node.table for node in walk(relation) if isinstance(node, Scan)]
    streams = [
        (scan, table) for scan, table in enumerate(tables) if isinstance(table, SparkStreamTable)
    ]
    if lines[0] != _KNOWN or len(lines) != 2 + len(streams):
        names = ", ".join(dict.fromkeys(table.name for _, table in streams))
        raise NotSupportedError(
            f"Spark's checkpoint does not have the positions of the job in {names}",
            detail=(
                f"it has {len(lines) - 2} sources in format {lines[0]}, "
                f"and the query has {len(streams)}"
            ),
            hint="a query that reads each stream once can be verified",
        )
    metadata = json.loads(lines[1])
    folder = checkpoint.parent / FOLDER / uuid4().hex
    inputs: dict[int, ReadableTable] = {}
    try:
        for number, ((scan, table), offset) in enumerate(zip(streams, lines[2:], strict=True)):
            own = (
                None
                if offset == NOTHING
                else _prepared(checkpoint, folder / str(number), number, metadata, offset)
            )
            inputs[scan] = ReplayedStream(table, own, _batch_of_files(offset))
    except BaseException:
        _remove(folder)
        raise
    watermark = int(metadata.get("batchWatermarkMs", 0))
    return ReadInput(
        batch=batch + 1,
        watermark=watermark * 1000 if watermark else None,
        inputs=inputs,
        close=lambda: _remove(folder),
    )


def _offsets(checkpoint: Path, batch: int) -> list[str]:
    """The lines that Spark wrote of a batch before it ran: a version, the batch's metadata, and
    an offset for each source."""
    try:
        return (checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()
    except OSError as error:
        raise OperationalError(
            "the positions of the job in its streams are unknown: Spark's checkpoint can't be read",
            code=ErrorCode.GENERIC,
            detail=str(error),
            hint="a job whose checkpoint is in the connection's directory can be verified",
        ) from error


def _batch_of_files(offset: str) -> int:
    found = json.loads(offset) if offset.startswith("{") else {}
    return int(found.get("logOffset", -1))


def _entries(folder: Path) -> Sequence[Path]:
    return list(folder.iterdir()) if folder.exists() else ()


def _prepared(
    checkpoint: Path, folder: Path, number: int, metadata: dict[str, Any], offset: str
) -> Path:
    """A checkpoint whose first batch extends from the beginning of a source to `offset`."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": str(uuid4())}), "utf-8")
    first = json.dumps({**metadata, "batchWatermarkMs": 0})
    (folder / "offsets" / "0").write_text("\n".join((_KNOWN, first, offset)), "utf-8")
    known = checkpoint / "sources" / str(number)
    if known.exists():
        shutil.copytree(known, folder / "sources" / "0")
    return folder


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # it has another replay
        folder.parent.rmdir()


class ReplayedStream(ReadableTable):
    """The rows of a stream up to a position.

    `checkpoint` is None if there were no rows. `batch` is, for files, the number of the last batch
    by the source's count.
    """

    connector = "Spark"

    def __init__(self, table: SparkStreamTable, checkpoint: Path | None, batch: int) -> None:
        self.batch = batch
        self.name = table.name
        self.columns = table.columns
        self.table = table
        self.checkpoint = checkpoint

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        self.table.check_readable(request.columns)
        return _ReplayedSparkSource(self, request.columns)


class _ReplayedSparkSource(Source):
    def __init__(self, table: ReplayedStream, requested: tuple[int, ...]) -> None:
        self._table = table
        self._requested = requested

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        if self._table.checkpoint is None:
            return [_Nothing()]
        stream = self._table.table
        _check_files(self._table)
        batch = _FirstBatch(self._table)
        try:
            frame = batch.frame(self._requested)
            fields = [
                Field(stream.columns[i].name, stream.columns[i].type) for i in self._requested
            ]
            fetch = stream.owner.get().fetch(
                frame, is_ordered=False, description=f"replay of {stream.name}"
            )
            found = partitions(fetch, fields)
        except BaseException:
            batch.end()
            raise
        return batch.shared(found)


class _FirstBatch:
    """A query over one stream that stays in its first batch until all readers have finished."""

    def __init__(self, table: ReplayedStream) -> None:
        self._table = table
        self._frame: Any = None
        self._is_there = Event()
        self._may_end = Event()
        self._query: Any = None
        self._readers = 0
        self._lock = Lock()

    def frame(self, requested: Sequence[int]) -> Any:
        """The rows of the batch, with the columns at the indexes `requested` (without any: with
        one column)."""
        table, checkpoint = self._table.table, self._table.checkpoint
        assert checkpoint is not None
        logging.getLogger("py4j.clientserver").addFilter(BATCH_STOPPED_FILTER)
        spark = table.owner.get()
        with spark_errors():
            stream = table.own_frame(spark)
            stream = (
                stream.select(*[f"c{i}" for i in requested])
                if requested
                else stream.selectExpr("TRUE AS c0")
            )
            writer = stream.writeStream.outputMode("append").option(
                "checkpointLocation", spark.checkpoint(checkpoint)
            )
            self._query = spark.start_stream(writer, self._take)
        deadline = current()
        with deadline.on_cancel(self._is_there.set):
            while not self._is_there.wait(0.1) and self._query.isActive:
                deadline.check_time()
        deadline.check()
        if self._frame is None:
            raise self._failed()
        return self._frame

    def shared(self, found: Sequence[SourcePartition]) -> Sequence[SourcePartition]:
        """The partitions; closing the last one ends the query."""
        self._readers = len(found)
        return [_Read(item, self, self._table) for item in found]

    def release(self) -> None:
        """Notes that one reader has finished."""
        with self._lock:
            self._readers -= 1
            is_last = self._readers == 0
        if is_last:
            self.end()

    def end(self) -> None:
        """Ends the query, without waiting."""
        self._may_end.set()

    def _take(self, frame: Any, number: int) -> None:
        """Called by Spark, on a thread of its own. Never returns normally.

        After a completed batch, Spark notifies the source, which may then delete its data.
        """
        if not number:
            self._frame = frame
            self._is_there.set()
            self._may_end.wait()
        raise BatchStopped

    def _failed(self) -> Error:
        try:
            self._query.awaitTermination()
        except Exception as error:
            return _gone(self._table, spark_error(error))
        return internal("a replay ended without a reason")


def _check_files(table: ReplayedStream) -> None:
    """OperationalError if a file that was read was deleted or changed, for local files.

    Spark would skip such a file, or mistake it for the file that it read.
    """
    assert table.checkpoint is not None
    is_remote = table.table.owner.get().is_remote
    for log in _entries(table.checkpoint / "sources" / "0"):
        if log.name.startswith("."):
            continue
        for line in log.read_text("utf-8", "replace").splitlines()[1:]:
            entry = json.loads(line) if line.startswith("{") else {}
            url = urlparse(entry.get("path", ""))
            if url.scheme != "file" or entry["batchId"] > table.batch:
                continue
            path = Path(unquote(url.path))
            if is_remote and not path.parent.exists():
                continue  # it is on the server's machine
            try:
                what = (
                    "was changed since"
                    if path.stat().st_mtime_ns // 1_000_000 != entry["timestamp"]
                    else None
                )
            except OSError:
                what = "is gone"
            if what is not None:
                message = f'file "{path}" of "{table.name}" {what}'
                raise OperationalError(message, code=ErrorCode.POSITION_EXPIRED)


class _Read(SourcePartition):
    """A partition of the batch."""

    def __init__(
        self, partition: SourcePartition, batch: _FirstBatch, table: ReplayedStream
    ) -> None:
        self._partition = partition
        self._batch = batch
        self._table = table
        self._is_open = True

    def open(self, wake: Callable[[], None]) -> None:
        self._partition.open(wake)

    def read(self) -> Any:
        try:
            return self._partition.read()
        except Error as error:
            raise _gone(self._table, error) from error

    def close(self) -> None:
        self._partition.close()
        if self._is_open:
            self._is_open = False
            self._batch.release()


class _Nothing(SourcePartition):
    def read(self) -> pa.RecordBatch | Pause | End:
        return END


def _gone(table: ReplayedStream, error: BaseException) -> Error:
    """The error of reading a stream again.

    Spark has many conditions for missing data, all of which mean here that data were deleted.
    """
    if not isinstance(error, Error):
        return internal(f"{type(error).__name__}: {error}")
    text = f"{error.message} {error.detail}"
    if not any(word in text for word in _GONE):
        return error
    return OperationalError(
        f'"{table.name}" no longer has the data that were read',
        code=ErrorCode.POSITION_EXPIRED,
        detail=error.message,
    )


_GONE = ("FILE_NOT_EXIST", "FileNotFound", "does not exist", "PATH_NOT_FOUND", "not available")
