"""Tables whose rows change, known by a log of their changes: the contract of their connectors.

A query reads the log, which is a table of events that only appear, and an operator derives the
current rows from the events (`live.CurrentRows`).
"""

from __future__ import annotations

from enum import Enum

from runnel.base.frozen import frozen
from runnel.catalog import TableColumn
from runnel.connector import ReadableTable, ScanRequest, Source
from runnel.errors import internal
from runnel.expressions.nodes import Expression


class OnInconsistency(Enum):
    """The treatment of an event that removes a row that the table does not contain.

    FAIL: it is an error.
    SKIP: it is ignored, and counted in the log.
    ALLOW: it is ignored, because such events are usual, like tombstones in a compacted topic.
    TRUST: the rows are not retained to find out.
    """

    FAIL = "fail"
    SKIP = "skip"
    ALLOW = "allow"
    TRUST = "trust"


@frozen
class EventLog:
    """How the events of a log describe the rows of a table.

    The expressions are over the columns of the log's table.

    operation: VARCHAR: 'c' and 'r' for a row that appears, 'u' for one that is replaced, 'd' for
        one that disappears.
    after: the columns of the table in the row after the event.
    before: the same in the row before the event; of a log with a key only the key must be right.
    has_after, has_before: BOOLEAN: whether the event has these rows.
    key: the indexes of the columns that identify a row; None: rows are identified by all columns.
    on_inconsistency: the treatment of an event that removes an unknown row.
    source: the log in words, for errors.
    location: indexes of columns of the log's table that say where an event is, and their names.
    is_event: BOOLEAN: whether a row of the log's table is an event; None: all are.
    """

    operation: Expression
    after: tuple[Expression, ...]
    before: tuple[Expression, ...]
    has_after: Expression
    has_before: Expression
    key: tuple[int, ...] | None
    on_inconsistency: OnInconsistency
    source: str
    location: tuple[tuple[int, str], ...] = ()
    is_event: Expression | None = None


class ChangingTable(ReadableTable):
    """A table that is known by the log of its changes.

    events: the table of the events, in their order within each partition.
    log: how the events describe the rows.
    """

    events: ReadableTable

    def __init__(
        self,
        name: str,
        connector: str,
        columns: tuple[TableColumn, ...],
        events: ReadableTable,
        log: EventLog,
    ) -> None:
        self.name = name
        self.connector = connector
        self.columns = columns
        self.events = events
        self.log = log
        self.malformed_target = events.malformed_target

    @property
    def is_unbounded(self) -> bool:
        return self.events.is_unbounded

    @property
    def can_end(self) -> bool:
        return self.events.can_end

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        raise internal(f'the changing table "{self.name}" is read by its events')
