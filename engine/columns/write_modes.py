"""How rows are written, and the kinds of the rows of a result that changes."""

from __future__ import annotations

from enum import Enum, IntEnum


class WriteMode(Enum):
    """How rows are written to a table with a key (without a key: `RowAddressedTable`).

    INSERT: a key that exists or occurs twice is an IntegrityError, and nothing is written.
    SINK: inserts or replaces; of several rows with one key, the last one remains.
    UPDATE: rows whose key exists are replaced.
    DELETE: rows with these keys are removed; only the key columns are passed.
    CHANGES: rows of a changing result appear and disappear. The last column of a batch is the
        `RowKind` of each row. See `WritableTable.change_key`.
    """

    INSERT = "insert"
    SINK = "sink"
    UPDATE = "update"
    DELETE = "delete"
    CHANGES = "changes"


class RowKind(IntEnum):
    """The kind of a row in the changes of a result: int8 values in a column."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3
