"""The sink of a job on Spark: writes each batch exactly once.

A batch is staged in the sink under the job's name; then its number and the token of the sink are
written to the job's folder, atomically; then it is committed. After an interruption at any point,
the next execution therefore knows which batches are valid. It commits the last one, removes other
staged rows, and skips a batch that Spark repeats.

A batch that the sink refuses (for instance because a key exists) is not valid: its number is
withdrawn and its rows are dropped, so that Spark repeats it when the job is resumed. It is refused
each time until the cause is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.columns.batches import slices
from runnel.connector import REFUSALS, Sink, SinkRequest, Token, WritableTable, WriteMode
from runnel.connectors.spark.errors import spark_errors
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.sink import GatheringSink
from runnel.connectors.spark.types import own_batch
from runnel.errors import Error, ErrorCode, IntegrityError, OperationalError
from runnel.foreign.job_runtime import JobWrite
from runnel.processor import Guarantee
from runnel.storage.durable_files import replace_file, sealed, unsealed

FILE = "committed.json"
FORMAT = 2
"""The version of the file's format. Version 1 had no checksum."""


def guarantee_of(table: WritableTable) -> Guarantee:
    """The guarantee for the rows of a job on Spark."""
    return table.guarantee


def written_batch(folder: Path) -> int:
    """The number of the last batch that had rows, from 1 on; 0 if there was none."""
    recorded = _recorded(folder / FILE)
    return 0 if recorded is None else recorded[0]


class JobSink:
    """The sink of one execution. Creating it commits the last valid batch. Used by one thread at
    a time."""

    def __init__(self, spark: Spark, write: JobWrite, owner: str, folder: Path) -> None:
        self._spark = spark
        self._names = [field.name for field in write.relation.fields]
        self._types = [field.type for field in write.relation.fields]
        self._file = folder / FILE
        self.committed = 0
        """The number of the last batch."""
        self.rows = 0
        """The number of rows written in this execution."""
        self.group: str | None = None
        """The name of the job group in which Spark computes rows that are fetched."""
        self._fetch: Any = None
        self._is_cancelled = False
        self._write = write
        self._owner = owner
        self._sink = self._recovered()

    def write(self, number: int, frame: Any) -> bool:
        """Writes the rows of a DataFrame (c0, c1…, as a fragment returns them) as batch `number`,
        from 1 on.

        Does nothing if that batch was committed before. Returns whether there were rows.
        """
        if number <= self.committed:
            return True
        sink = self._sink
        if isinstance(sink, GatheringSink):
            with spark_errors():
                count = sink.write_frame(frame)
                token = sink.stage(number)
                rows = count()
        else:
            rows = 0
            for batch in self._batches(frame):
                sink.write(batch)
                rows += batch.num_rows
            if not rows:
                return False
            token = sink.stage(number)
        if not rows:
            sink.abort(token)  # Spark has written a file without rows
            return False
        self._record(number, token)
        try:
            sink.commit(token)
        except REFUSALS as error:
            self._take_back(number)
            sink.abort(token)
            self._explain(error, number)
            raise
        self.committed = number
        self.rows += rows
        return True

    def cancel(self) -> None:
        """Makes current and later writes of fetched rows fail. From any thread."""
        self._is_cancelled = True
        fetch = self._fetch
        if fetch is not None:
            fetch.close()

    def close(self) -> None:
        """Drops rows that are not staged."""
        self._sink.close()

    def _batches(self, frame: Any) -> Iterator[pa.RecordBatch]:
        """The rows, fetched from Spark."""
        fetch = self._spark.fetch(frame, is_ordered=False, description="rows of a job")
        self._fetch, self.group = fetch, fetch.group
        try:
            self._check_not_cancelled()
            for batch in fetch.batches():
                yield from slices(own_batch(batch, self._names, self._types))
                self._check_not_cancelled()
            self._check_not_cancelled()
        finally:
            self._fetch = None

    def _check_not_cancelled(self) -> None:
        """Fails after a cancellation, since rows may be missing then."""
        if self._is_cancelled:
            raise OperationalError("the job was cancelled", code=ErrorCode.CANCELLED)

    def _recovered(self) -> Sink:
        """The sink, after it has committed the last valid batch and removed other staged rows."""
        recorded = _recorded(self._file)
        number, token = (0, None) if recorded is None else recorded
        write = self._write
        sink = write.table.sink(SinkRequest(write.mode, write.columns, self._owner))
        try:
            sink.recover([] if token is None else [token])
        except BaseException as error:
            sink.close()
            if token is None or not isinstance(error, REFUSALS):
                raise
            # The last execution ended before it learned of the refusal. If the cause has been
            # removed, the batch will now succeed.
            self._record(number - 1, None)
            return self._recovered()
        self.committed = number
        return sink

    def _take_back(self, number: int) -> None:
        """Withdraws the batch as the last one. The batches before it, back to one with rows, had
        no rows."""
        # On an error the next execution finds the refusal; the refusal is the better error.
        with suppress(OperationalError):
            self._record(number - 1, None)

    def _explain(self, error: Error, number: int) -> None:
        """Adds to the error the outcome of a refused batch, and the remedies."""
        name = self._write.table.name
        outcome = f'batch {number} of the job is refused as a whole: no row of it is in "{name}"'
        error.detail = outcome if error.detail is None else f"{error.detail}; {outcome}"
        if isinstance(error, IntegrityError) and self._write.mode is WriteMode.INSERT:
            again = (
                "ALTER JOB … RESUME, which writes the batch"
                if self._write.relation.is_unbounded
                else "create the job again"
            )
            error.hint = (
                f'remove the rows with these keys from "{name}", and {again}; '
                "or DROP JOB and create it with SINK INTO, which replaces rows of the same key"
            )

    def _record(self, number: int, token: Token | None) -> None:
        try:
            replace_file(self._file, sealed({"format": FORMAT, "batch": number, "token": token}))
        except OSError as error:
            raise OperationalError(
                "the position of a job on Spark can't be stored",
                code=ErrorCode.INPUT_OUTPUT,
                detail=f"{self._file}: {error.strerror or error}",
                hint="make room on the disk",
            ) from error


def _recorded(file: Path) -> tuple[int, Token | None] | None:
    """The last batch that had rows, and its token (None: nothing is left to commit); None if
    there is none."""
    try:
        content = unsealed(file.read_bytes(), FORMAT)
        return int(content["batch"]), content["token"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperationalError(
            "the record of the committed batches of a job on Spark can't be read",
            code=ErrorCode.GENERIC,
            detail=f"{file}: {error}",
            hint=(
                "restore the file, or DROP JOB and create it again, which starts from the beginning"
            ),
        ) from error
