"""The distinct keys of one side of a join, as a dynamic filter for the other side.

The keys are collected while the rows of the side arrive. The reader of the other side may leave out
rows whose keys aren't among them. It may also leave out fewer rows, since the join checks the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.sqltypes import Kind, SqlType
from runnel.storage.memory_budget import size_of

MOST_KEYS = 50_000
"""Maximum number of distinct keys; of more keys only the least and the greatest are retained."""
MOST_BYTES = 16 << 20
"""Maximum size in bytes of the distinct keys, with the same consequence."""
GATHERED_ROWS = 65_536
"""Number of rows that are collected before duplicates are removed."""

ORDERED = frozenset(
    {
        *(
            Kind.TINYINT,
            Kind.SMALLINT,
            Kind.INTEGER,
            Kind.BIGINT,
            Kind.DECIMAL,
            Kind.VARCHAR,
            Kind.VARBINARY,
        ),
        *(Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ),
    }
)
"""Types whose order is the same in every engine.

Floats aren't among them, as engines order NaN differently.
"""


class KeyFilter:
    """The distinct keys. A key with a NULL in any column matches nothing, so it is left out.

    types: the types of the key columns.
    is_empty: whether no key was added.
    """

    def __init__(self, types: Sequence[SqlType]) -> None:
        self.types = tuple(types)
        self._bounds: list[pa.Array | None] = [None] * len(types)
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._values: pa.Table | None = None
        self._is_too_many = False
        self.is_empty = True

    def add(self, batch: pa.RecordBatch) -> None:
        """Add keys: a batch with one column per key column."""
        columns = batch.columns
        if any(column.null_count for column in columns):
            whole = columns[0].is_valid()
            for column in columns[1:]:
                whole = pc.and_(whole, column.is_valid())
            columns = [column.filter(whole) for column in columns]
        if not len(columns[0]):
            return
        self.is_empty = False
        for index, (column, kind) in enumerate(zip(columns, self.types, strict=True)):
            if kind.kind in ORDERED:
                self._bounds[index] = _bounds(column, self._bounds[index])
        if not self._is_too_many:
            self._gathered.append(
                pa.RecordBatch.from_arrays(columns, names=[f"k{i}" for i in range(len(columns))])
            )
            self._rows += len(columns[0])
            if self._rows > GATHERED_ROWS:
                self._reduce()

    @property
    def values(self) -> pa.Table | None:
        """The distinct keys, as columns k0, k1, …; None if they are too many."""
        self._reduce()
        return self._values

    def bounds(self, index: int) -> tuple[pa.Scalar, pa.Scalar] | None:
        """Return the least and the greatest value of the key column `index`.

        None if there are no keys, or if the order of the type differs between engines.
        """
        found = self._bounds[index]
        return None if found is None else (found[0], found[1])

    def _reduce(self) -> None:
        if not self._gathered or self._is_too_many:
            return
        known = [] if self._values is None else self._values.to_batches()
        table = pa.Table.from_batches([*known, *self._gathered])
        self._gathered, self._rows = [], 0
        self._values = table.group_by(table.column_names, use_threads=False).aggregate([])
        if (
            self._values.num_rows > MOST_KEYS
            or sum(map(size_of, self._values.to_batches())) > MOST_BYTES
        ):
            self._values, self._is_too_many = None, True


def _bounds(column: pa.Array, known: pa.Array | None) -> pa.Array:
    """Return the least and the greatest value of a column and of the known bounds."""
    values = column if known is None else pa.concat_arrays([column, known])
    found = pc.min_max(values)
    return pa.array([found["min"], found["max"]], column.type)
