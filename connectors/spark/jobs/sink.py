"""What a job on Spark writes: batch by batch, each once.

A batch is staged in the sink under the job's name; then its number and what the sink needs to
commit it are written to the job's folder, at once; then it is committed. So whatever is cut short,
the next execution knows which batches count: it has the last one committed, has what else was
staged taken away, and takes a batch that Spark gives again for done.

A batch that the sink refuses (a key that is there) doesn't count: its number is taken back and its
rows are given up, so that Spark gives it again when the job is resumed. Until what is in its way is
gone it is refused each time.
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
from runnel.storage.durable_files import replace_file
from runnel.storage.sealed_json import sealed, unsealed

FILE = "committed.json"
FORMAT = 2
"""The version of the file. The first had no checksum."""


def promise_of(table: WritableTable) -> Guarantee:
    """What holds of the rows of a job on Spark."""
    return table.guarantee


def written_batch(place: Path) -> int:
    """The number of the last batch that had rows, from 1 on; 0 where there was none."""
    kept = _kept(place / FILE)
    return 0 if kept is None else kept[0]


class JobSink:
    """The sink of one execution. Making it commits what the last one staged and has counted. Used
    by one thread at a time."""

    def __init__(self, spark: Spark, write: JobWrite, owner: str, place: Path) -> None:
        self._spark = spark
        self._names = [field.name for field in write.relation.fields]
        self._types = [field.type for field in write.relation.fields]
        self._file = place / FILE
        self.committed = 0
        """The number of the last batch."""
        self.rows = 0
        """Rows written in this execution."""
        self.group: str | None = None
        """By which name Spark runs what comes to us of its rows."""
        self._fetch: Any = None
        self._is_cancelled = False
        self._write = write
        self._owner = owner
        self._sink = self._recovered()

    def write(self, number: int, frame: Any) -> bool:
        """Writes the rows of a DataFrame (c0, c1…, as a fragment gives them) as the batch of this
        number, from 1 on; nothing where it is committed by now. Whether there were any."""
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
            sink.abort(token)  # Spark has made a file without rows
            return False
        self._keep(number, token)
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
        """Has what is being written fail, and what is to come, if its rows come to us. From any
        thread."""
        self._is_cancelled = True
        fetch = self._fetch
        if fetch is not None:
            fetch.close()

    def close(self) -> None:
        """Gives up what isn't staged."""
        self._sink.close()

    def _batches(self, frame: Any) -> Iterator[pa.RecordBatch]:
        """The rows on our side, as they come."""
        fetch = self._spark.fetch(frame, is_ordered=False, description="rows of a job")
        self._fetch, self.group = fetch, fetch.group
        try:
            self._check_going_on()
            for batch in fetch.batches():
                yield from slices(own_batch(batch, self._names, self._types))
                self._check_going_on()
            self._check_going_on()
        finally:
            self._fetch = None

    def _check_going_on(self) -> None:
        """Fails where it was cancelled: then rows may be missing."""
        if self._is_cancelled:
            raise OperationalError("the job was cancelled", code=ErrorCode.CANCELLED)

    def _recovered(self) -> Sink:
        """The sink, which has the last batch that counts, and nothing else that was staged."""
        kept = _kept(self._file)
        number, token = (0, None) if kept is None else kept
        write = self._write
        sink = write.table.sink(SinkRequest(write.mode, write.columns, self._owner))
        try:
            sink.recover([] if token is None else [token])
        except BaseException as error:
            sink.close()
            if token is None or not isinstance(error, REFUSALS):
                raise
            # The last execution ended before it was told so. If what was in the way is gone by now
            # the batch will do.
            self._keep(number - 1, None)
            return self._recovered()
        self.committed = number
        return sink

    def _take_back(self, number: int) -> None:
        """The batch isn't the last one any more. Those before it, back to one with rows, had
        none."""
        with suppress(
            OperationalError
        ):  # the next execution finds out; that it was refused says more
            self._keep(number - 1, None)

    def _explain(self, error: Error, number: int) -> None:
        """Says what becomes of a batch that is refused, and what can be done."""
        name = self._write.table.name
        told = f'batch {number} of the job is refused as a whole: no row of it is in "{name}"'
        error.detail = told if error.detail is None else f"{error.detail}; {told}"
        if isinstance(error, IntegrityError) and self._write.mode is WriteMode.INSERT:
            again = (
                "ALTER JOB … RESUME, which writes the batch"
                if self._write.relation.is_unbounded
                else "create the job anew"
            )
            error.hint = (
                f'take what is in the way out of "{name}", and {again}; '
                "or DROP JOB and create it with SINK INTO, which replaces rows of the same key"
            )

    def _keep(self, number: int, token: Token | None) -> None:
        try:
            replace_file(self._file, sealed({"format": FORMAT, "batch": number, "token": token}))
        except OSError as error:
            raise OperationalError(
                "the place of a job on Spark can't be kept",
                code=ErrorCode.INPUT_OUTPUT,
                detail=f"{self._file}: {error.strerror or error}",
                hint="make room on the disk",
            ) from error


def _kept(file: Path) -> tuple[int, Token | None] | None:
    """The last batch that had rows, and what commits it; None there: nothing is left to commit."""
    try:
        kept = unsealed(file.read_bytes(), FORMAT)
        return int(kept["batch"]), kept["token"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperationalError(
            "what is kept of the batches that a job on Spark has committed can't be read",
            code=ErrorCode.GENERIC,
            detail=f"{file}: {error}",
            hint="bring the file back, or DROP JOB and create it anew, which begins from the start",
        ) from error
