"""The connector contract: how a mapping's columns are found, how its rows are read, looked up and
written.

A connector answers CREATE MAPPING (`resolve`) and opens tables (`open`). A table that can be read
is a `ReadableTable`, one that can be written a `WritableTable`, one with keyed access a
`KeyedTable`: the class says it. The guarantees of a scan, such as whether it can be repeated, are
attributes of `Source`. A connector imports neither the planner nor the runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import Index, Table, WatermarkClause
from runnel.columns.batches import Mask
from runnel.errors import DataError, ErrorCode, IntegrityError, NotSupportedError, OperationalError
from runnel.expressions.nodes import Expression
from runnel.processor import ExpiredPosition, Guarantee, JobContext
from runnel.sqltypes import SqlType, from_arrow

if TYPE_CHECKING:
    from runnel.access import Access

BATCH_ROWS = 65_536
"""The most rows that a source puts in one batch."""


@frozen
class ColumnDefinition:
    """A column as CREATE MAPPING declares it."""

    name: str
    type: SqlType
    external_name: str | None = None


@frozen
class MappingDefinition:
    """CREATE MAPPING, as the connector is shown it. `columns` is () where the statement declares
    none: the connector then finds them out itself. Option names keep their spelling; `options.py`
    reads them.

    access: the bounds of what the table may open, and its name for what is outside; None: none.
    granted: the options, in small letters, that come from a data connection without bounds.
    """

    name: str
    columns: tuple[ColumnDefinition, ...]
    options: Mapping[str, str]
    external_name: str | None = None
    object_type: str | None = None
    watermark: WatermarkClause | None = None
    access: Access | None = None
    granted: frozenset[str] = frozenset()

    def is_granted(self, option: str) -> bool:
        """Whether an option's value is the owner's word, which bounds are no matter for."""
        return self.access is None or option.lower() in self.granted


class Connector(ABC):
    """One kind of data, named in `TYPE …`. One instance per connection; safe for threads."""

    name: str

    keeps_bounds = False
    """Whether what it opens is within `definition.access`, always. A mapping with bounds is refused
    where it isn't."""

    @abstractmethod
    def open(self, definition: MappingDefinition) -> Table:
        """The table that a CREATE MAPPING defines. Validates options and declared columns, finds
        out columns that aren't declared (this may read data), and fails with an error that names
        the option or the file. Creates no data."""

    def close(self) -> None:
        """Gives back what the connector holds; no table of it is used afterwards."""


class DataConnector(Connector):
    """A connector of something that is reached by a connection of its own: a database. CREATE DATA
    CONNECTION gives its options a name, which mappings then take them from."""

    connection_options: tuple[str, ...] = ()
    """The options that a data connection may have, () for any that `check_connection` lets pass; a
    mapping that uses one gives the others."""

    resource_types: tuple[str, ...] = ()
    """What `resources` lists, such as TABLE."""

    @abstractmethod
    def check_connection(self, options: Mapping[str, str]) -> None:
        """Fails where a data connection with these options can't work."""

    @abstractmethod
    def resources(self, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        """What can be mapped through a data connection: names as EXTERNAL NAME takes them, each
        with its type; sorted."""


@frozen
class ScanRequest:
    """What a query wants of a table: the columns at `columns` in that order, rows for which
    `predicate` (over the table's columns) may be true, and no more than `limit` rows if that is
    given.

    Predicate and limit are advice: a table may use them to read less (row groups, files, indexes),
    but the rows are filtered and counted again by the caller.
    """

    columns: tuple[int, ...]
    predicate: Expression | None = None
    limit: int | None = None


class End:
    """What `SourcePartition.read` gives when there is nothing more, ever. One instance: END."""

    def __repr__(self) -> str:
        return "END"


END = End()


@frozen
class Pause:
    """What `SourcePartition.read` gives when there is nothing now: ask again at `until` (monotonic
    ns), or, if that is None, when the partition calls the `wake` it was opened with. `is_idle`: it
    has given all that there is and expects nothing soon (a file read to its end), so that it holds
    back no watermark from now on."""

    until: int | None = None
    is_idle: bool = False


@frozen
class EventTimeMark:
    """What `SourcePartition.read` may give between batches where the source itself knows how far
    event time is: no later row of this partition has an event time before `time` (microseconds for
    a temporal column, else the column's own unit). What has no event time ignores it."""

    time: int


@frozen
class Skipped:
    """Where reading goes on in the place of a position that has expired, in words ('offset 5'), and
    how many rows were left out by that (None: nobody knows)."""

    place: str
    rows: int | None = None


def position_expired(
    message: str, *, detail: str | None = None, hint: str | None = None
) -> OperationalError:
    """The error for a position that a source has no more: what is after it was deleted or
    overwritten. `message` names the partition and the position, `detail` what there is."""
    return OperationalError(
        message,
        code=ErrorCode.POSITION_EXPIRED,
        detail=detail,
        hint=(
            f"{'' if hint is None else hint + '; or '}have the job go on with what there is: ALTER "
            "JOB … OPTIONS "
            "('expiredPosition'='earliest') RESUME; with 'latest', with what comes from now on"
        ),
    )


@frozen
class MalformedRecord:
    """A record that a source can't read. `place` says where it stands ('file "a.csv", line 3'),
    `record` is what stands there, as far as it is text, and `reason` what is wrong with it."""

    place: str
    record: str
    reason: str


class SourcePartition(ABC):
    """One independent part of a source: a list of batches, a file, a Kafka partition. Used by one
    thread at a time."""

    identity = ""
    """The name under which a partition of the same source is known again, by another process too,
    so that it is given its position back; "" where its number among the partitions says which it
    is."""

    malformed = 0
    """How many records were left out so far because they can't be read (where the mapping's
    'onError' isn't 'fail')."""

    def take_malformed(self) -> Sequence[MalformedRecord]:
        """The records left out since the last call, where the table has a `divert_to`."""
        return ()

    def open(self, wake: Callable[[], None]) -> None:
        """Called once before the first `read`, by the thread that will read. `wake` may be called
        from any thread."""

    @abstractmethod
    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        """The next batch of the requested columns, in canonical Arrow types and at most BATCH_ROWS
        rows. Never waits in a cooperative source; in another at most about a second."""

    def tasks(self) -> tuple[int, int]:
        """Of how many tasks of another engine, done and known in all, this partition is to tell.
        From any thread; may take milliseconds."""
        return 0, 0

    def position(self) -> Token | None:
        """Where reading is: after all that `read` gave so far. JSON values, small; goes into
        snapshots. None: this partition can't be read again from a place, so what a snapshot was
        taken of can't be repeated after it. Between two reads, also before the first."""
        return None

    def seek(self, token: Token) -> None:
        """Goes on where a partition of the same source once was, perhaps in another process. Before
        the first `read`, before or after `open`. What is no longer there (deleted, overwritten) is
        a `position_expired` that tells the gap, from here or from a `read`."""
        raise NotSupportedError(f"a {type(self).__name__} can't be read from a position")

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        """Goes on with the earliest or the latest that there is, having raised
        `position_expired`."""
        raise NotSupportedError(
            f"a {type(self).__name__} can't go on where its position has expired"
        )

    def stop_at(self, token: Token) -> None:
        """Gives END in the place of what is behind the position, which a partition of the same
        source told once: to read again what was read then. Before the first `read`. What is no
        longer there is an OperationalError, from here or from a `read`."""
        raise NotSupportedError(f"a {type(self).__name__} can't be read up to a position")

    def begin_anew(self) -> None:
        """It is newer than the snapshot that a job starts from, so it is read from its start.
        Before the first `read`."""

    def committed(self, is_safe: bool) -> None:
        """The snapshot that the last `position` went into is safe, or was given up. Called between
        two reads; only in jobs that take snapshots."""

    def close(self) -> None:
        """Called once at the end, in any case, perhaps without `open`."""


class Source(ABC):
    """A scan that was asked for, before it runs: part of a plan, used by many executions at
    once."""

    cooperative = True
    """Whether its partitions never block. Blocking ones are read on a thread of their own."""

    is_repeatable = False
    """Whether its partitions have positions, so that after a restart nothing is lost and nothing
    comes twice. Without, a job takes no snapshot before all is read, and then begins anew when it
    is restarted."""

    is_live = False
    """Whether what isn't read when it comes is gone (a pushed stream): without positions it goes on
    with what comes after a restart, and snapshots are taken all the same."""

    may_grow = False
    """Whether it may get more partitions in time: one that a snapshot doesn't know is then new, and
    read from its start. Else what a job reads is fixed at its first start."""

    begins_anywhere = False
    """Whether what is read first may be another row than the first that there is, so that who wants
    to read the same again must know where it began."""

    kind = "the source"
    """What it is, for error texts."""

    @abstractmethod
    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        """The partitions for one execution. Called by the thread that starts the statement, before
        `execute` returns: what a query sees is fixed here."""

    def split_so_far(self, context: JobContext) -> Sequence[SourcePartition]:
        """The partitions of all that there is now, from the first row on; each ends there. Nothing
        where what is to be written isn't there yet. A source without an end that can't say how far
        it goes doesn't have this method of its own."""
        return self.split(context)

    def forget(self, owner: str) -> None:
        """No execution of the job `owner` (`JobContext.owner`) comes any more: what was kept for
        the next one may go."""

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        """A partition that a snapshot knows and `split` doesn't give any more; `seek` is called
        next. OperationalError where it can't be had, a `position_expired` where the others are
        enough to go on with."""
        message = (
            f'{self.kind} has no partition "{identity}" any more, '
            "of which a snapshot has the position"
        )
        if self.may_grow:
            raise position_expired(message, detail=f"the position is {token}", hint="bring it back")
        raise OperationalError(
            message,
            code=ErrorCode.GENERIC,
            hint=(
                "bring back what was there when the snapshot was taken, "
                "or drop the job and create it anew"
            ),
        )


class ReadableTable(Table):
    """A table whose rows can be scanned."""

    divert_to: str | None = None
    """The name of the mapping that gets records that can't be read ('onError' = 'divert:…'); each
    has the columns of a `MalformedRecord`."""

    reads_slowly: bool = False
    """Whether to read the rows a second time takes much longer than to keep them meanwhile, as with
    text that is parsed."""

    @abstractmethod
    def scan(self, request: ScanRequest) -> Source:
        """A source of the requested columns. Cheap: nothing is opened before `Source.split`."""


class IndexedTable(ReadableTable):
    """A table with secondary indexes, of which the catalog keeps the names."""

    @abstractmethod
    def validate_index(self, index: Index) -> None:
        """Fails with a ProgrammingError where the table can't have such an index."""

    @abstractmethod
    def index_scan(self, request: ScanRequest, lookup: IndexLookup) -> Source:
        """A source of the rows that the lookup finds, in the index's order if `lookup.ordered`; the
        predicate of the request is advice as ever."""


@frozen
class IndexLookup:
    """Which entries of an index: those equal to one of `points`, or those in the range from `lower`
    to `upper`, or all (in order). The expressions are literals or parameters of the first column's
    type (for an integer column of any integer type, so perhaps beyond its range); NULL never
    matches.

    `ordered`: rows come sorted by the index's columns (`descending` if set; NULL smallest), at most
    `limit` of them if given (a literal or parameter; only without a predicate).
    """

    index: Index
    points: tuple[Expression, ...] | None = None
    lower: Expression | None = None
    upper: Expression | None = None
    lower_inclusive: bool = True
    upper_inclusive: bool = True
    ordered: bool = False
    descending: bool = False


class WriteMode(Enum):
    """INSERT: a key that exists (or comes twice) is an IntegrityError and nothing is written. SINK:
    the last one wins.
    UPDATE: rows whose key exists are replaced. DELETE: only the key columns are given. (Without a
        key: `RowAddressedTable`.)"""

    INSERT = "insert"
    SINK = "sink"
    UPDATE = "update"
    DELETE = "delete"


Token = dict[str, Any]
"""What a sink needs to commit staged rows even after a restart: JSON values only."""

REFUSALS = (IntegrityError, DataError)
"""What `Sink.commit` raises of rows of which nothing is there, nor will be by committing them
again, as things are."""


class Sink(ABC):
    """Writes rows, and makes them visible only at commit. Used by one thread at a time; may block.

    A light job writes all its batches, stages once and commits once. A durable job, one with an
    `owner`, does so at every snapshot: `stage` at the barrier (the token goes into the snapshot),
    `commit` when the snapshot is safe; rows written between these two belong to the next token. A
    commit may be repeated after a restart and must then change nothing more.
    """

    cooperative = False
    """Whether no call ever blocks; a blocking sink gets a thread of its own."""

    def recover(self, tokens: Sequence[Token]) -> None:
        """Called once before the first `write` of an execution of a durable job. `tokens` are those
        in the snapshot that it starts from, oldest first; () where it starts anew. What they staged
        becomes visible, where it isn't yet; whatever else the same owner had staged is given up: it
        belongs to no snapshot that counts, and its rows come again."""
        for token in tokens:
            self.commit(token)

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows: the columns of the `SinkRequest`, in canonical Arrow types. Fails early where
        it can."""

    @abstractmethod
    def stage(self, epoch: int) -> Token:
        """Makes the rows since the last stage safe but not visible. A light job's epoch is 0; those
        of a durable job count from 1, in the order of its snapshots, and go on after a restart.
        What a durable job stages outlives the process."""

    @abstractmethod
    def commit(self, token: Token) -> None:
        """Makes staged rows visible, all at once. Idempotent."""

    @abstractmethod
    def abort(self, token: Token | None) -> None:
        """Gives up staged rows (None: those not yet staged as well), leaving no trace."""

    def close(self) -> None:
        """Called once at the end, in any case; what is not committed is given up, but not what was
        staged for an owner."""


@frozen
class SinkRequest:
    """What a statement will write: columns of the table, by index and in the batches' order; the
    others become NULL. `owner`: the name under which staged rows outlive the process, so that the
    next execution of the same durable job finds them; "" for a job that dies with its process."""

    mode: WriteMode
    columns: tuple[int, ...]
    owner: str = ""


class WritableTable(Table):
    """A table that rows can be written to."""

    guarantee = Guarantee.AT_LEAST_ONCE
    """What its sinks can promise to a durable job. EXACTLY_ONCE: what `stage` made safe outlives
    the process, a commit that is repeated changes nothing, and `Sink.recover` finds and gives up
    what belongs to no snapshot."""

    @property
    @abstractmethod
    def write_modes(self) -> frozenset[WriteMode]:
        """The modes that `sink` takes."""

    @abstractmethod
    def sink(self, request: SinkRequest) -> Sink:
        """A new sink. Called once for each execution."""

    def written_by(self, fragment: Source, request: SinkRequest) -> Source | None:
        """A source that writes the rows of a fragment where both are, all or none, and emits one
        row:
        their number (BIGINT). `fragment` is a `FragmentSource`, and so is the result. None where
        that can't be: the rows then come to a sink."""
        return None

    def exclusive(self) -> AbstractContextManager[object]:
        """Held by the thread that runs a DML statement on the table, from before its scan until
        after its commit, so that statements that read and write do so one after the other."""
        return nullcontext()


class RowAddressedTable(ReadableTable, WritableTable):
    """A table without a key of ours, whose rows can be told apart while a statement holds it:
    `row_id` is the index of a hidden column that does so. For UPDATE a sink is given that column
    first, then those assigned; for DELETE it alone."""

    row_id: int

    @abstractmethod
    def clear(self) -> int:
        """Takes all rows out (DELETE without WHERE), all or none; gives their number."""


class KeyedTable(ReadableTable, WritableTable):
    """A table with keyed access that needs no job. Keys and rows are Python values, as a fetch
    would give them."""

    @abstractmethod
    def get(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """All columns of the row with that key (the values of `key_columns`), or None.
        Microseconds, no lock. A key value may be of any Python type that equals the column's (an
        int for a DECIMAL)."""

    def changes(self) -> ReadableTable | None:
        """The changes of this table as a stream, for TABLE(CHANGES(TABLE …)); None where there is
        none."""
        return None

    def get_many(self, keys: Sequence[pa.Array]) -> tuple[pa.RecordBatch, Mask]:
        """All columns of the rows with these keys, as they are now: a row for each key, of NULLs
        where there is none, and where there is one. `keys` are one array for each of `key_columns`,
        without NULLs; integers may be of any width."""
        from runnel.expressions.kernels.values import array_of, python_values

        wanted = list(
            zip(*(python_values(array, from_arrow(array.type)) for array in keys), strict=True)
        )
        known = {key: self.get(key) for key in dict.fromkeys(wanted)}
        nothing = (None,) * len(self.columns)
        rows = [known[key] or nothing for key in wanted]
        columns = [
            array_of([row[i] for row in rows], column.type) for i, column in enumerate(self.columns)
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[column.name for column in self.columns])
        return batch, np.array([known[key] is not None for key in wanted], np.bool_)

    @abstractmethod
    def put(self, row: tuple[Any, ...], mode: WriteMode) -> int:
        """Writes one row (all columns; INSERT, SINK or UPDATE) or, for DELETE, takes the row out
        whose key columns equal those of `row`; gives the number of rows affected. Durable when it
        returns, if the connection is."""

    @abstractmethod
    def clear(self) -> int:
        """Takes all rows out (DELETE without WHERE); gives their number."""
