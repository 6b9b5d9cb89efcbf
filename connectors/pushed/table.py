"""Pushed streams: a table whose rows the program writes while queries read them.

Written rows go to every query that reads the stream at that time (they are broadcast). A query sees
the rows that are written after its `execute` returned, and no earlier ones. If there is no reader,
or the buffer of a reader is full, `write` waits, so that nothing is lost and memory stays bounded.
Closing the writer ends the stream: its readers get the buffered rows, then the end.

A named job that is stopped in order to resume remains a reader: its unread rows wait for its next
execution.

A writer that knows more about event time than the rows show calls `watermark`; readers get the
watermark in order with the rows.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Condition
from time import monotonic
from types import TracebackType
from typing import Any, TypeAlias

import pyarrow as pa

from runnel.base.forks import closed_error, finalizer, here, watch
from runnel.catalog import EventTime, TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    EventTimeMark,
    Pause,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    SourceTraits,
)
from runnel.connectors.pushed.event_time import event_time_of
from runnel.connectors.pushed.plain_rows import PlainRows, RowForm
from runnel.connectors.pushed.rows import StreamData, batches_of, stream_columns
from runnel.deadline import end_of_wait
from runnel.errors import ErrorCode, InterfaceError, OperationalError
from runnel.processor import JobContext
from runnel.sqltypes import SqlType

BUFFERED_ROWS = 262_144
"""The number of buffered rows from which a reader's buffer is full."""

BUFFERED_BATCHES = 1_024
"""The number of buffered batches from which a reader's buffer is full."""

UNREAD_SECONDS = 3.0
"""How many seconds a write waits for a first reader before it logs a warning."""

logger = logging.getLogger("runnel.connectors.pushed.table")

StreamRows: TypeAlias = "pa.RecordBatch | PlainRows"


class ReaderQueue:
    """The buffer of one reader, which reads some of the columns. Guarded by the channel's
    condition, except `joined`."""

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns = list(columns)
        self.items: deque[StreamRows | EventTimeMark] = deque()
        self.rows = 0
        self.taken = 0
        self.wake: Callable[[], None] | None = None

    def put(self, rows: StreamRows) -> None:
        """Adds rows; plain rows to the plain rows before them."""
        self.rows += rows.num_rows
        if isinstance(rows, PlainRows):
            last = self.items[-1] if self.items else None
            if isinstance(last, PlainRows) and last.num_rows + rows.num_rows <= BATCH_ROWS:
                last.rows.extend(rows.rows)
                return
            rows = PlainRows(rows.form, list(rows.rows))
        self.items.append(rows)

    def mark(self, mark: EventTimeMark) -> None:
        """Adds a watermark, which needs no room: of watermarks without rows in between only the
        last is retained."""
        if self.items and isinstance(self.items[-1], EventTimeMark):
            self.items[-1] = mark
        else:
            self.items.append(mark)

    def take(self) -> EventTimeMark | list[StreamRows] | None:
        """A watermark, or the rows before the next watermark, up to a full batch."""
        if not self.items:
            return None
        first = self.items.popleft()
        if isinstance(first, EventTimeMark):
            return first
        taken, rows = [first], first.num_rows
        while self.items:
            following = self.items[0]
            if isinstance(following, EventTimeMark) or rows + following.num_rows > BATCH_ROWS:
                break
            self.items.popleft()
            taken.append(following)
            rows += following.num_rows
        self.rows -= rows
        self.taken += rows
        return taken

    def joined(self, taken: Sequence[StreamRows]) -> pa.RecordBatch:
        """The columns of the reader, of rows that it took."""
        if not self.columns:
            return empty_columns(sum(rows.num_rows for rows in taken))
        chosen = [
            rows.form.batch(rows.rows, self.columns)
            if isinstance(rows, PlainRows)
            else rows.select(self.columns)
            for rows in taken
        ]
        return chosen[0] if len(chosen) == 1 else pa.concat_batches(chosen)


class StreamChannel:
    """The connection between the writers and the readers of one stream. Safe for threads."""

    def __init__(self, name: str, buffered_rows: int) -> None:
        self.name = name
        self._buffered_rows = buffered_rows
        self._condition = Condition()
        self._readers: dict[int, ReaderQueue] = {}
        self._parked: dict[str, list[int]] = {}
        self._next_reader = 0
        self._mark: EventTimeMark | None = None
        self._closed = False
        self._withdrawn = False
        self._has_warned = False
        self._origin = here()
        watch(self)

    def leave(self) -> None:
        """Closes the stream in a forked child: its readers belong to the parent.

        The condition is replaced, since another thread may have held its lock during the fork.
        """
        self._closed = True
        self._condition = Condition()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        """InterfaceError if the stream is closed."""
        if self._origin.is_left:
            raise closed_error(self._origin)
        if self._closed:
            raise InterfaceError(f'the stream "{self.name}" is closed')

    @property
    def reader_count(self) -> int:
        return len(self._readers)

    def attach(self, columns: Sequence[int], owner: str = "") -> tuple[int, ReaderQueue]:
        """A new reader of some columns, which gets all later rows, after the last watermark.

        A reader of an owner replaces one that the owner has left.
        """
        with self._condition:
            parked = self._parked.get(owner)
            if parked:
                reader = parked.pop(0)
                queue = self._readers[reader]
                queue.columns = list(columns)
                return reader, queue
            self._next_reader += 1
            queue = self._readers[self._next_reader] = ReaderQueue(columns)
            if self._mark is not None:
                queue.mark(self._mark)
            self._condition.notify_all()
            return self._next_reader, queue

    def detach(self, reader: int, owner: str = "") -> None:
        """Removes a reader: no write waits for it any longer.

        The reader of an owner is retained for the owner's next reader.
        """
        with self._condition:
            if owner and reader in self._readers and not self._closed:
                self._readers[reader].wake = None
                self._parked.setdefault(owner, []).append(reader)
                return
            self._readers.pop(reader, None)
            self._condition.notify_all()

    def forget(self, owner: str) -> None:
        """Removes the retained readers of an owner, with their rows."""
        with self._condition:
            for reader in self._parked.pop(owner, ()):
                self._readers.pop(reader, None)
            self._condition.notify_all()

    def put(self, rows: StreamRows, until: float | None) -> None:
        """Adds rows to the buffers of all readers, as soon as there is one and all have room.

        OperationalError at the time `until` (of `time.monotonic`).
        """
        with self._condition:
            while not self._closed and not self._has_room():
                if self._withdrawn and not self._readers:
                    raise InterfaceError(
                        f'the stream "{self.name}" is no longer registered',
                        hint="register it again with register_stream",
                    )
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    raise self._timed_out()
                self._wait(left)
            self.check_open()
            queues = tuple(self._readers.values())
            for queue in queues:
                queue.put(rows)
        _wake(queues)

    def mark(self, time: int) -> bool:
        """Informs all readers, also later ones, that no earlier event times follow.

        False: an earlier watermark asserted that already.
        """
        with self._condition:
            self.check_open()
            if self._mark is not None and time <= self._mark.time:
                return False
            self._mark = EventTimeMark(time)
            queues = tuple(self._readers.values())
            for queue in queues:
                queue.mark(self._mark)
        _wake(queues)
        return True

    def take(self, queue: ReaderQueue) -> pa.RecordBatch | EventTimeMark | Pause | End:
        """The next item for a reader."""
        with self._condition:
            was_full = not self._has_room_for(queue)
            item = queue.take()
            if item is None:
                return END if self._closed else Pause()
            if was_full:
                self._condition.notify_all()
        return queue.joined(item) if isinstance(item, list) else item

    def progress(self, queue: ReaderQueue) -> tuple[int, int]:
        """How many rows were written for a reader, and how many it has taken."""
        with self._condition:
            return queue.taken + queue.rows, queue.taken

    def withdraw(self) -> None:
        """Refuses new readers. Writers get an InterfaceError once the last reader has left."""
        with self._condition:
            self._withdrawn = True
            self._condition.notify_all()

    def close(self) -> None:
        """Ends the stream. Waiting writers get an InterfaceError."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            queues = tuple(self._readers.values())
        _wake(queues)

    def _wait(self, seconds: float | None) -> None:
        """Waits for room. If there was never a reader, a warning is logged once.

        The program may be waiting for itself: it writes before it executes a query.
        """
        is_unread = not self._readers and self._next_reader == 0 and not self._has_warned
        if not is_unread or (seconds is not None and seconds <= UNREAD_SECONDS):
            self._condition.wait(seconds)
        elif not self._condition.wait(UNREAD_SECONDS) and not self._readers:
            self._has_warned = True
            logger.warning(
                'a write to stream "%s" waits: no query reads it yet (execute one first)', self.name
            )

    def _has_room(self) -> bool:
        return bool(self._readers) and all(
            self._has_room_for(queue) for queue in tuple(self._readers.values())
        )

    def _has_room_for(self, queue: ReaderQueue) -> bool:
        return queue.rows < self._buffered_rows and len(queue.items) < BUFFERED_BATCHES

    def _timed_out(self) -> OperationalError:
        if self._readers:
            reason, hint = (
                "a query that reads it is too slow",
                "fetch from that query, or close its cursor",
            )
        else:
            reason, hint = "no query reads it", "execute a query on the stream first"
        message = f'the write to stream "{self.name}" timed out: {reason}'
        return OperationalError(message, code=ErrorCode.TIMEOUT, hint=hint)


def _wake(queues: Sequence[ReaderQueue]) -> None:
    for queue in queues:
        if queue.wake is not None:
            queue.wake()


class StreamTable(ReadableTable):
    """The readers' side of a pushed stream."""

    connector = "Stream"

    def __init__(
        self,
        name: str,
        schema: pa.Schema | Mapping[str, SqlType | str],
        *,
        event_time: Callable[[Sequence[TableColumn]], EventTime | None] | None = None,
        buffered_rows: int = BUFFERED_ROWS,
    ) -> None:
        self.name = name
        self.columns: tuple[TableColumn, ...] = stream_columns(name, schema)
        self.event_time = None if event_time is None else event_time(self.columns)
        self.channel = StreamChannel(name, buffered_rows)

    @property
    def is_unbounded(self) -> bool:
        return True

    @property
    def can_end(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return PushedStreamSource(self.channel, request.columns)

    def withdraw(self) -> None:
        """Refuses new readers; writers get an error once the last reader has left."""
        self.channel.withdraw()

    def close(self) -> None:
        """Ends the stream: no query can read it, so a waiting writer gets an error."""
        self.channel.close()

    def writer(self) -> StreamWriter:
        """A writer of this stream; closing one closes the stream."""
        return StreamWriter(self)


class PushedStreamSource(Source):
    """A scan of a pushed stream: each execution is a reader of its own."""

    traits = SourceTraits(is_live=True)

    def __init__(self, channel: StreamChannel, columns: tuple[int, ...]) -> None:
        self._channel = channel
        self._columns = columns

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [PushedStreamPartition(self._channel, self._columns, context.owner)]

    def forget(self, owner: str) -> None:
        self._channel.forget(owner)


class PushedStreamPartition(SourcePartition):
    """One reader. It counts from its creation until it is closed or forgotten."""

    def __init__(self, channel: StreamChannel, columns: tuple[int, ...], owner: str = "") -> None:
        self._channel = channel
        reader, self._queue = channel.attach(columns, owner)
        # A reader that is dropped without being closed must not block the writers indefinitely.
        self._detach = finalizer(self, channel.detach, reader, owner)
        self._detach.atexit = False

    def open(self, wake: Callable[[], None]) -> None:
        self._queue.wake = wake

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        return self._channel.take(self._queue)

    def progress(self) -> tuple[int, int]:
        return self._channel.progress(self._queue)

    def close(self) -> None:
        self._detach()


class StreamWriter:
    """Writes rows to a pushed stream, from any thread. As a context manager it closes the stream
    at the end."""

    def __init__(self, table: StreamTable) -> None:
        self._columns = table.columns
        self._channel = table.channel
        self._event_time = table.event_time
        self._form = RowForm.of(table.columns)

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    @property
    def reader_count(self) -> int:
        """The number of scans of running queries that read the stream now."""
        return self._channel.reader_count

    def write(self, data: StreamData, timeout: float | None = None) -> int:
        """Writes rows for every query that reads the stream, and returns their number.

        `data` is an Arrow batch, table or reader, or an object that exports an Arrow stream
        (pandas, Polars), with columns by name; or rows as tuples (by position) or dicts (by name;
        missing columns are NULL). Rows that do not fit raise a DataError that names the column, and
        then nothing is written (of a reader: nothing of the batch at fault).

        Waits while no query reads the stream, or while the buffer of a query is full. After
        `timeout` seconds it raises an OperationalError with the code TIMEOUT; rows that did not fit
        into the readers' buffers until then are not written. InterfaceError after `close`, and if
        no query reads the stream and none can, since it was unregistered.
        """
        self._channel.check_open()
        until = end_of_wait(timeout)
        few = None if self._form is None else self._form.few(data)
        if few is not None:
            self._channel.put(few, until)
            return few.num_rows
        written = 0
        for batch in batches_of(data, self._columns, self.name):
            for start in range(0, batch.num_rows, BATCH_ROWS):
                chunk = batch.slice(start, BATCH_ROWS)
                self._channel.put(chunk, until)
                written += chunk.num_rows
        return written

    def watermark(self, time: Any) -> bool:
        """Asserts that no row written from now on has an event time before `time`.

        Queries then close the windows that end by then, without waiting for rows that show it.
        `time` is a value of the stream's time column: a datetime, a date or an int (without a time
        column, a value that fits the query's IMPOSE_ORDER).

        Never waits. A time that is not after the last one has no effect, and the result is False.
        Rows that contradict the watermark are late, like other late rows. A query that starts later
        gets the watermark, too.
        """
        column = None if self._event_time is None else self._columns[self._event_time.column]
        return self._channel.mark(event_time_of(time, column, self.name))

    def close(self) -> None:
        """Ends the stream; may be called again. Queries get the buffered rows, then the end."""
        self._channel.close()

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.reader_count} readers"
        return f"<StreamWriter {self.name}: {state}>"
