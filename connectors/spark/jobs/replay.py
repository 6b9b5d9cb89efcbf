"""What a job over streams on Spark has read, once more: each stream up to the last batch written,
as a table that ends.

Spark's checkpoint says after each batch how far it is in each source, in words of the source's own.
So the source is asked: a streaming query over the stream alone is begun with a checkpoint that says
that nothing was read yet, and that the first batch goes up to that place. Its rows come to us as
those of any DataFrame; then the query ends, before it knows of a second batch.
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
from runnel.foreign.job_runtime import ReadSoFar
from runnel.processor import JobContext
from runnel.relation.nodes import Field, Relation, Scan, walk

FOLDER = "replays"
"""The checkpoints of replays, beside that of the job."""
NOTHING = "-"
"""What Spark writes for a source that had nothing yet."""

_KNOWN = "v1"


class Told(Exception):
    """Ends a batch; why is known here."""


class NotTold(logging.Filter):
    """Keeps py4j from logging how a batch was ended."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], Told))


NOT_TOLD = NotTold()


def read_so_far(relation: Relation, checkpoint: Path, written: int) -> ReadSoFar | None:
    """What a job's query has read by its last batch. `written` is the number of the last batch that
    had rows, from 1 on."""
    elsewhere = checkpoint / CHECKPOINT_ELSEWHERE
    if elsewhere.exists():
        raise NotSupportedError(
            "where the job is in its streams can't be told: "
            "the Spark Connect server keeps its checkpoint",
            detail=f"it is at {elsewhere.read_text('utf-8')}",
            hint=(
                "a job whose checkpoint is in the connection's directory can be verified: of a "
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
            f"where the job is in {names} can't be told from Spark's checkpoint",
            detail=(
                f"it speaks of {len(lines) - 2} sources in form {lines[0]}, "
                f"and the query has {len(streams)}"
            ),
            hint="a query that reads each stream once can be verified",
        )
    told = json.loads(lines[1])
    place = checkpoint.parent / FOLDER / uuid4().hex
    inputs: dict[int, ReadableTable] = {}
    try:
        for number, ((scan, table), offset) in enumerate(zip(streams, lines[2:], strict=True)):
            own = (
                None
                if offset == NOTHING
                else _prepared(checkpoint, place / str(number), number, told, offset)
            )
            inputs[scan] = ReplayedStream(table, own, _batch_of_files(offset))
    except BaseException:
        _remove(place)
        raise
    watermark = int(told.get("batchWatermarkMs", 0))
    return ReadSoFar(
        batch=batch + 1,
        watermark=watermark * 1000 if watermark else None,
        inputs=inputs,
        close=lambda: _remove(place),
    )


def _offsets(checkpoint: Path, batch: int) -> list[str]:
    """The lines that Spark wrote of a batch before it ran: a version, the batch's metadata, an
    offset for each source."""
    try:
        return (checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()
    except OSError as error:
        raise OperationalError(
            "where the job is in its streams can't be told: Spark's checkpoint can't be read",
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
    checkpoint: Path, place: Path, number: int, told: dict[str, Any], offset: str
) -> Path:
    """A checkpoint whose first batch goes from the beginning of a source to `offset`."""
    (place / "offsets").mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": str(uuid4())}), "utf-8")
    first = json.dumps({**told, "batchWatermarkMs": 0})
    (place / "offsets" / "0").write_text("\n".join((_KNOWN, first, offset)), "utf-8")
    known = checkpoint / "sources" / str(number)
    if known.exists():
        shutil.copytree(known, place / "sources" / "0")
    return place


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):  # there is another one
        place.parent.rmdir()


class ReplayedStream(ReadableTable):
    """The rows of a stream up to a place; `checkpoint` None: there were none. `batch`: of files the
    number of the last batch, as the source counts them."""

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
        return _ReplayedSource(self, request.columns)


class _ReplayedSource(Source):
    def __init__(self, table: ReplayedStream, wanted: tuple[int, ...]) -> None:
        self._table = table
        self._wanted = wanted

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        if self._table.checkpoint is None:
            return [_Nothing()]
        stream = self._table.table
        _check_files(self._table)
        batch = _FirstBatch(self._table)
        try:
            frame = batch.frame(self._wanted)
            fields = [Field(stream.columns[i].name, stream.columns[i].type) for i in self._wanted]
            fetch = stream.owner.get().fetch(
                frame, is_ordered=False, description=f"replay of {stream.name}"
            )
            found = partitions(fetch, fields)
        except BaseException:
            batch.end()
            raise
        return batch.shared(found)


class _FirstBatch:
    """A query over one stream, held in its first batch until all who read it are done."""

    def __init__(self, table: ReplayedStream) -> None:
        self._table = table
        self._frame: Any = None
        self._is_there = Event()
        self._may_end = Event()
        self._query: Any = None
        self._readers = 0
        self._lock = Lock()

    def frame(self, wanted: Sequence[int]) -> Any:
        """The rows of the batch, of the columns at `wanted` (any one where there are none)."""
        table, checkpoint = self._table.table, self._table.checkpoint
        assert checkpoint is not None
        logging.getLogger("py4j.clientserver").addFilter(NOT_TOLD)
        spark = table.owner.get()
        with spark_errors():
            stream = table.own_frame(spark)
            stream = (
                stream.select(*[f"c{i}" for i in wanted])
                if wanted
                else stream.selectExpr("TRUE AS c0")
            )
            writer = stream.writeStream.outputMode("append").option(
                "checkpointLocation", spark.checkpoint(checkpoint)
            )
            self._query = spark.start_stream(writer, self._take)
        patience = current()
        with patience.telling(self._is_there.set):
            while not self._is_there.wait(0.1) and self._query.isActive:
                patience.check_time()
        patience.check()
        if self._frame is None:
            raise self._failed()
        return self._frame

    def shared(self, found: Sequence[SourcePartition]) -> Sequence[SourcePartition]:
        """The partitions, whose last to be closed ends the query."""
        self._readers = len(found)
        return [_Read(item, self, self._table) for item in found]

    def release(self) -> None:
        """One reader is done."""
        with self._lock:
            self._readers -= 1
            is_last = self._readers == 0
        if is_last:
            self.end()

    def end(self) -> None:
        """Has the query end; waits for nothing."""
        self._may_end.set()

    def _take(self, frame: Any, number: int) -> None:
        """Called by Spark, on a thread of its own. It never returns: what follows a batch that is
        done would be done to the source, which may clean up behind itself."""
        if not number:
            self._frame = frame
            self._is_there.set()
            self._may_end.wait()
        raise Told

    def _failed(self) -> Error:
        try:
            self._query.awaitTermination()
        except Exception as error:
            return _gone(self._table, spark_error(error))
        return internal("a replay ended without a reason")


def _check_files(table: ReplayedStream) -> None:
    """OperationalError where a file that was read isn't there any more, or is another one: Spark
    would leave it out, or take it for the same. Of files on this machine."""
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
    """What went wrong when a stream was read again. Spark says by many conditions that something
    isn't there any more, all of which have been there once."""
    if not isinstance(error, Error):
        return internal(f"{type(error).__name__}: {error}")
    text = f"{error.message} {error.detail}"
    if not any(word in text for word in _GONE):
        return error
    return OperationalError(
        f'"{table.name}" has no longer what was read of it',
        code=ErrorCode.POSITION_EXPIRED,
        detail=error.message,
    )


_GONE = ("FILE_NOT_EXIST", "FileNotFound", "does not exist", "PATH_NOT_FOUND", "not available")
