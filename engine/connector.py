"""The connector contract: how a mapping's columns are resolved, and its rows read and written.

`open` validates the options of a CREATE MAPPING, resolves the columns and returns a table, whose
class says what it supports: a `ReadableTable` is scanned, an `IndexedTable` has secondary indexes,
a `WritableTable` is written, a `KeyedTable` has keyed access, and `SourceTraits` are the guarantees
of a scan. A connector imports no planner and no runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import ComputedColumn, Index, Table, WatermarkClause
from runnel.columns.batches import Mask
from runnel.columns.write_modes import WriteMode as WriteMode
from runnel.errors import (
    DataError,
    ErrorCode,
    IntegrityError,
    NotSupportedError,
    OperationalError,
    position_expired,
)
from runnel.expressions.nodes import Expression
from runnel.processor import ExpiredPosition, Guarantee, JobContext
from runnel.sqltypes import SqlType, from_arrow

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.columns.table_definition import TableDefinition

BATCH_ROWS = 65_536
"""The maximum number of rows in a batch that a source returns."""


@frozen
class ColumnDefinition:
    """A column as CREATE MAPPING declares it.

    name: name of the column in the mapping.
    type: declared SQL type.
    external_name: name of the column in the external data, if it differs.
    """

    name: str
    type: SqlType
    external_name: str | None = None


@frozen
class MappingDefinition:
    """CREATE MAPPING, as the connector receives it.

    name: name of the mapping.
    columns: declared columns; () if the connector is to resolve them itself.
    options: options with their spelling unchanged; `options.py` of the connectors reads them.
    external_name: name of the data in the external system (EXTERNAL NAME).
    object_type: kind of the external object, if the statement names one.
    watermark: the WATERMARK FOR clause.
    access: the paths and URLs that the table may open, and the error for others; None: all.
    granted: lower-case names of the options that come from a data connection without bounds.
    table: the constraints of a table of CREATE TABLE; None: CREATE MAPPING.
    is_stored: it was saved by an earlier statement: options left out are not looked for in data.
    computed: the columns that the binder computes; the connector ignores them.
    schema: the key of its schema, if it is a table of CREATE TABLE; "": public.
    """

    name: str
    columns: tuple[ColumnDefinition, ...]
    options: Mapping[str, str]
    external_name: str | None = None
    object_type: str | None = None
    watermark: WatermarkClause | None = None
    access: Access | None = None
    granted: frozenset[str] = frozenset()
    table: TableDefinition | None = None
    is_stored: bool = False
    computed: tuple[ComputedColumn, ...] = ()
    schema: str = ""

    def is_granted(self, option: str) -> bool:
        """Whether the value of an option was set by the owner, so that no bounds apply to it."""
        return self.access is None or option.lower() in self.granted


class Connector(ABC):
    """One kind of external data, named in `TYPE …`. One instance per connection; thread-safe."""

    name: str

    keeps_bounds = False
    """Whether all that it opens is checked against `definition.access`; else bounds are refused."""

    @abstractmethod
    def open(self, definition: MappingDefinition) -> Table:
        """Returns the table of a CREATE MAPPING. Validates options and declared columns, resolves
        other columns (this may read data); an error names the option or file. Creates no data."""

    def close(self) -> None:
        """Releases all resources of the connector; its tables are not used afterwards."""


class DataConnector(Connector):
    """A connector for a system that needs a connection of its own, such as a database, whose
    options CREATE DATA CONNECTION stores under a name that mappings refer to."""

    connection_options: tuple[str, ...] = ()
    """The options that belong to a data connection; () for any that `check_connection` accepts."""

    resource_types: tuple[str, ...] = ()
    """The types that `resources` lists, such as TABLE."""

    @abstractmethod
    def check_connection(self, options: Mapping[str, str]) -> None:
        """Fails if a data connection with these options cannot work."""

    @abstractmethod
    def resources(self, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        """The objects that can be mapped through a data connection, sorted: their names as
        EXTERNAL NAME accepts them, each with its type."""


@frozen
class ScanRequest:
    """The columns and rows that a query requests of a table.

    columns: indexes of the columns, in the order of the result.
    predicate: over the table's columns; only rows for which it may be true are needed.
    limit: number of rows for which the predicate is true that are enough; None: all.

    Predicate and limit are advice: a table may use them to read less (row groups, files, indexes),
    but the caller filters and counts the rows again. The planner sets no limit with a predicate; a
    table that applies both evaluates the whole predicate first.
    """

    columns: tuple[int, ...]
    predicate: Expression | None = None
    limit: int | None = None


class End:
    """The answer of `SourcePartition.read` at the end of the data. One instance: END."""

    def __repr__(self) -> str:
        return "END"


END = End()


@frozen
class Pause:
    """The answer of `SourcePartition.read` when there are no rows at present.

    until: when to call `read` again, in monotonic ns; None: when the partition calls its `wake`.
    is_idle: it has returned all existing rows and expects no more soon, so that from now on it does
        not hold back the watermark.
    is_finished: like `is_idle`, even if the idle timeout is 0, because its data has ended.
    """

    until: int | None = None
    is_idle: bool = False
    is_finished: bool = False


@frozen
class EventTimeMark:
    """A watermark from the source itself, which `SourcePartition.read` may return between batches.
    Readers without an event time ignore it.

    time: no later row of this partition has an event time before it; in microseconds for a
        temporal column, otherwise in the column's own unit.
    has_other_data: the partition continues with other data, as with a new file. Until a row of it
        was read, the partition has no watermark, and holds back the watermark of the source.
        Allowed only if the traits of the source have `moves_data`.
    """

    time: int
    has_other_data: bool = False


@frozen
class Skipped:
    """The position at which reading continues after the requested position expired.

    position: the new position in words, such as 'offset 5'.
    rows: number of rows that were skipped; None: unknown.
    """

    position: str
    rows: int | None = None


@frozen
class MalformedRecord:
    """A record that a source cannot parse.

    `place`: location of the record, such as 'file "a.csv", line 3'.
    record: the content of the record, as far as it is text.
    reason: what is wrong with the record.
    """

    place: str
    record: str
    reason: str


class SourcePartition(ABC):
    """A share of a source that is read on its own, such as a file. Used by one thread at a time."""

    identity = ""
    """The name of this partition in its source, in other processes too: by it a restored partition
    receives its position. "": its index identifies it."""

    data_name = ""
    """The data that it reads, for SHOW JOBS, such as a path; "": its name says that."""

    is_between_epochs = True
    """Whether an epoch of a live query may end after the rows that `read` has returned."""

    def progress(self) -> tuple[int, int] | None:
        """How many rows this process has written for it, and how many of them `read` has returned,
        for reads of own writes; None: unknown. Called from any thread."""
        return None

    malformed = 0
    """Number of records skipped so far because they cannot be parsed, without 'onError' 'fail'."""

    def take_malformed(self) -> Sequence[MalformedRecord]:
        """The records skipped since the last call, if the table has a `malformed_target`."""
        return ()

    def open(self, wake: Callable[[], None]) -> None:
        """Called once before the first `read`, by its thread. Any thread may call `wake`."""

    @abstractmethod
    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        """The next batch of the requested columns, in canonical Arrow types and with at most
        BATCH_ROWS rows. Never waits in a cooperative source; in others for at most about a
        second.

        Nothing interrupts this call: a statement that is cancelled or times out ends, and calls
        `close`, after it has returned. A foreign call that may last longer runs on a thread of its
        own: return a `Pause` until it calls `wake`, and have `close` interrupt it."""

    def tasks(self) -> tuple[int, int]:
        """Completed and total tasks that another engine runs for it; from any thread, in ms."""
        return 0, 0

    def position(self) -> Token | None:
        """The current position: after all rows that `read` has returned. Small JSON values; stored
        in snapshots. None: this partition cannot be read again from a position, so rows before a
        snapshot are not repeatable. Called between two reads, also before the first."""
        return None

    def seek(self, token: Token) -> None:
        """Moves to a position that a partition of the same source returned, perhaps in another
        process. Called before the first `read`, before or after `open`. If the rows after it were
        deleted or overwritten, this method or a later `read` raises a `position_expired`."""
        raise NotSupportedError(f"a {type(self).__name__} can't be read from a position")

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        """Moves to the earliest or the latest existing row, after a `position_expired`."""
        raise NotSupportedError(f"a {type(self).__name__} can't skip an expired position")

    def stop_at(self, token: Token) -> None:
        """Ends the partition at a position that a partition of the same source returned: `read`
        returns END instead of the rows after it, so that exactly the same rows are read again.
        Called before the first `read`. If the rows no longer exist, this method or a `read` raises
        an OperationalError."""
        raise NotSupportedError(f"a {type(self).__name__} can't be read up to a position")

    def begin_anew(self) -> None:
        """Starts at the first row: this partition is newer than the snapshot from which the job
        starts. Called before the first `read`."""

    def committed(self, is_safe: bool) -> None:
        """The snapshot that contains the last `position` is durable (`is_safe`) or was discarded.
        Called between two reads; only in jobs that take snapshots."""

    def close(self) -> None:
        """Called once at the end, in any case, even if `open` was never called."""


@frozen
class SourceTraits:
    """The guarantees of a scan, which decide how a job restarts.

    is_repeatable: its partitions have positions, so that after a restart no row is lost or
        repeated. If not, a job takes no snapshot before all rows are read, and until then a restart
        begins from the first row.
    is_live: rows that are not read on arrival are lost (a pushed stream). Without positions, a
        restarted job continues with later rows, and snapshots are taken nevertheless.
    may_grow: partitions may be added while a job runs: one that a snapshot does not contain is new,
        and read from its start. If not, the first start of a job fixes the partitions.
    begins_anywhere: the first row read may be another one than the first row that exists. To read
        the same rows again, the start position must then be stored.
    moves_data: a partition may continue with other data, whose event times may be less than in its
        earlier rows. Each processor then emits the least watermark of all partitions of the source.
    """

    is_repeatable: bool = False
    is_live: bool = False
    may_grow: bool = False
    begins_anywhere: bool = False
    moves_data: bool = False


class Source(ABC):
    """A requested scan before it runs: part of a plan, used by several executions at once."""

    cooperative = True
    """Whether its partitions never block. Blocking ones are read on a thread of their own."""

    traits = SourceTraits()
    """The guarantees of the scan. An attribute of the class, or set by `__init__`."""

    kind = "the source"
    """The kind of the source, for error messages."""

    @abstractmethod
    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        """The partitions for one execution. Called by the thread that starts the statement, before
        `execute` returns: this call fixes the rows that a query reads. The number of partitions
        should follow from the data, not from `context.parallelism`, and a partition returns its
        rows in a fixed order: then a row is found again by its partition and its index in it. The
        rows of a Spark table have no order."""

    def stored(self) -> Iterator[pa.RecordBatch] | None:
        """All rows as they are in memory, in the order of `split`, for a query that only reads
        them. This call fixes the rows, and the iterator never waits. None: a job reads them."""
        return None

    is_stored = False
    """Whether `stored` returns the rows."""

    def split_so_far(self, context: JobContext) -> Sequence[SourcePartition]:
        """The partitions of all rows that exist now, each from its first row to its current end;
        empty if the data has not been written yet. An unbounded source that cannot say where it
        currently ends does not override this method."""
        return self.split(context)

    def forget(self, owner: str) -> None:
        """No execution of the job `owner` (`JobContext.owner`) follows: its state may go."""

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        """A partition that is in a snapshot, but that `split` no longer returns; `seek` is called
        next. Raises OperationalError if the partition no longer exists, as a `position_expired` if
        the job can continue with the other partitions."""
        message = f'{self.kind} has no partition "{identity}" that a snapshot contains'
        if self.traits.may_grow:
            raise position_expired(message, detail=f"the position is {token}", hint="bring it back")
        raise OperationalError(
            message,
            code=ErrorCode.GENERIC,
            hint=(
                "bring back the data that existed when the snapshot was taken, "
                "or drop the job and create it again"
            ),
        )


class ReadableTable(Table):
    """A table whose rows can be scanned."""

    malformed_target: str | None = None
    """The name of the mapping of records that cannot be parsed ('onError' = 'divert:…'), whose
    columns are the fields of `MalformedRecord`."""

    events: ReadableTable | None = None
    """The table of events that a `ChangingTable` is derived from; None: it is read itself."""

    poll_millis: int | None = None
    """Interval at which a live query reads it again ('pollChangesMillis'); None: once."""

    reads_slowly: bool = False
    """Whether reading the rows again takes much longer than storing them, as of text."""

    def with_changes(self, millis: int | None) -> ReadableTable | None:
        """Its rows and then their changes, as a `ChangingTable`; None: they are not known."""
        return None

    @abstractmethod
    def scan(self, request: ScanRequest) -> Source:
        """A source of the requested columns. Cheap: nothing is opened before `Source.split`."""

    def evaluated(self, request: ScanRequest) -> tuple[Expression, ...]:
        """The conjuncts of the request's predicate that every row of the scan satisfies, because
        the table or its external system evaluates them; EXPLAIN shows them. Opens nothing. A
        conjunct that only skips files or row groups is not among them."""
        return ()


class IndexedTable(ReadableTable):
    """A table with secondary indexes, whose definitions are in the catalog."""

    @abstractmethod
    def validate_index(self, index: Index) -> None:
        """Fails with a ProgrammingError if the table cannot have such an index."""

    @abstractmethod
    def index_scan(self, request: ScanRequest, lookup: IndexLookup) -> Source:
        """A source of the rows that the lookup finds, in the index's order if `lookup.ordered`; the
        predicate of the request is advice, as in `scan`."""


@frozen
class IndexLookup:
    """A selection of the entries of an index: those equal to one of `points`, those in the range
    from `lower` to `upper`, or all.

    index: the index.
    points: values of the first column; None: the range is used.
    lower, upper: bounds of the first column; None: no bound.
    lower_inclusive, upper_inclusive: whether entries equal to the bound are included.
    ordered: rows are returned sorted by the index's columns, NULL smallest.
    descending: the order is reversed.

    The expressions are literals or parameters of the first column's type (for an integer column of
    any integer type, so perhaps beyond its range); NULL never matches.
    """

    index: Index
    points: tuple[Expression, ...] | None = None
    lower: Expression | None = None
    upper: Expression | None = None
    lower_inclusive: bool = True
    upper_inclusive: bool = True
    ordered: bool = False
    descending: bool = False


Token = dict[str, Any]
"""The reference to staged rows that a sink needs to commit them, even after a restart: JSON values
only."""

REFUSALS = (IntegrityError, DataError)
"""The errors by which `Sink.commit` reports that it wrote none of the rows, and that repeating the
commit would fail in the same way."""


class Sink(ABC):
    """Writes rows, and makes them visible only at commit. Used by one thread at a time; may block.

    A light job writes all its batches, stages once and commits once. A durable job, one with an
    `owner`, does so at every snapshot: `stage` at the barrier (the token is stored in the
    snapshot), `commit` when the snapshot is durable; rows written between these two calls belong to
    the next token. A commit may be repeated after a restart and must then have no further effect.
    """

    cooperative = False
    """Whether no call ever blocks; a blocking sink gets a thread of its own."""

    def recover(self, tokens: Sequence[Token]) -> None:
        """Called once before the first `write` of an execution of a durable job. `tokens` are those
        in the snapshot that it starts from, oldest first; () if it starts without one. Commits the
        rows of these tokens that are not visible yet, and discards all other staged rows of the
        same owner: they belong to no valid snapshot, and will be written again."""
        for token in tokens:
            self.commit(token)

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows: the columns of the `SinkRequest`, in canonical Arrow types. Fails early."""

    @abstractmethod
    def stage(self, epoch: int) -> Token:
        """Makes the rows since the last `stage` safe but not visible. The epoch of a light job is
        0; epochs of a durable job count its snapshots from 1, and continue after a restart. Rows
        that a durable job stages outlive the process."""

    @abstractmethod
    def commit(self, token: Token) -> None:
        """Makes staged rows visible, all at once. Idempotent."""

    @abstractmethod
    def abort(self, token: Token | None) -> None:
        """Discards staged rows (None: also rows that are not staged yet), leaving no trace. May
        also follow a `commit` of the token that failed: then it does not repeat a wait (for a lock)
        that ended in that error."""

    def close(self) -> None:
        """Called once at the end, in any case. Discards rows that are not committed, except rows
        that were staged for an owner."""


@frozen
class SinkRequest:
    """The rows that a statement will write.

    mode: how they are written.
    columns: indexes of the columns of the table, in the order of the batches. In a new row the rest
        become NULL, or the table's default where the sink leaves them to a database (DuckDB; its
        SINK and UPDATE leave them unchanged in an existing row).
    owner: the name under which staged rows outlive the process, so that the next execution of the
        same durable job finds them; "" for a job that ends with its process.
    """

    mode: WriteMode
    columns: tuple[int, ...]
    owner: str = ""


class WritableTable(Table):
    """A table to which rows can be written."""

    guarantee = Guarantee.AT_LEAST_ONCE
    """The guarantee of its sinks to a durable job. EXACTLY_ONCE: staged rows outlive the process, a
    repeated commit has no effect, and `Sink.recover` finds and discards the rows that belong to no
    snapshot."""

    @property
    @abstractmethod
    def write_modes(self) -> frozenset[WriteMode]:
        """The modes that `sink` supports."""

    @property
    def change_key(self) -> tuple[int, ...] | None:
        """For WriteMode.CHANGES: the indexes of the columns by which a change finds its row. The
        sink then receives at most one row per key between two calls of `stage`: INSERT or
        UPDATE_AFTER, which both insert or replace, or DELETE. None: the sink receives all changes,
        in their order."""
        return None

    @abstractmethod
    def sink(self, request: SinkRequest) -> Sink:
        """A new sink. Called once for each execution."""

    def written_by(self, fragment: Source, request: SinkRequest) -> Source | None:
        """A source that has the engine of a fragment write the fragment's rows to this table, all
        or none, and returns one row: their number (BIGINT). `fragment` is a `FragmentSource`, and
        so is the result. None if it cannot: the rows are then written through a sink."""
        return None

    def exclusive(self) -> AbstractContextManager[object]:
        """A lock for DML statements on the table, from before their scan until after their commit,
        so that statements that read and write the table run one after another."""
        return nullcontext()


class RowAddressedTable(ReadableTable, WritableTable):
    """A table without a declared key. While a statement holds the table, the hidden column with
    index `row_id` identifies its rows. An UPDATE passes that column first to the sink, then the
    assigned columns; a DELETE passes it alone."""

    row_id: int

    @abstractmethod
    def clear(self) -> int:
        """Removes all rows (DELETE without WHERE), all or none; returns their number."""


class KeyedTable(ReadableTable, WritableTable):
    """A table with keyed access that needs no job. Keys and rows are Python values, as a fetch
    returns them."""

    @abstractmethod
    def get(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """All columns of the row with that key (the values of `key_columns`), or None. Takes
        microseconds and no lock. A key value may be of any Python type that equals the column's (an
        int for a DECIMAL)."""

    def changes(self) -> ReadableTable | None:
        """The changes as a stream, for TABLE(CHANGES(TABLE …)); None if it records none."""
        return None

    def get_many(self, keys: Sequence[pa.Array]) -> tuple[pa.RecordBatch, Mask]:
        """The current rows of several keys, and a mask of the keys that exist. The batch has all
        columns and one row for each key, with NULLs if the key does not exist. `keys` is one array
        for each of `key_columns`, without NULLs; integers may be of any width."""
        from runnel.expressions.kernels.values import array_of, python_values

        requested = list(
            zip(*(python_values(array, from_arrow(array.type)) for array in keys), strict=True)
        )
        known = {key: self.get(key) for key in dict.fromkeys(requested)}
        nothing = (None,) * len(self.columns)
        rows = [known[key] or nothing for key in requested]
        columns = [
            array_of([row[i] for row in rows], column.type) for i, column in enumerate(self.columns)
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[column.name for column in self.columns])
        return batch, np.array([known[key] is not None for key in requested], np.bool_)

    @abstractmethod
    def put(self, row: tuple[Any, ...], mode: WriteMode) -> int:
        """Writes one row (all columns; INSERT, SINK or UPDATE) or, for DELETE, removes the row
        with the key columns of `row`; returns the number of rows affected. On a durable
        connection the row is durable when the call returns."""

    @abstractmethod
    def clear(self) -> int:
        """Removes all rows (DELETE without WHERE); returns their number."""
