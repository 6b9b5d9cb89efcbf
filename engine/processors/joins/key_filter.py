"""The keys that one side of a join has, gathered as its rows come: what of the other side's rows is
wanted at all.

Whoever reads the other side may leave out rows whose keys aren't among them; the join decides, so
to leave out too few is never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.sqltypes import Kind, SqlType
from runnel.storage.memory_budget import size_of

MOST_KEYS = 50_000
"""Of more different keys than these only the smallest and the largest are kept."""
MOST_BYTES = 16 << 20
GATHERED_ROWS = 65_536
"""So many rows are gathered before equal ones among them are left out."""

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
"""Types whose order is the same in every engine: not that of floats, which differ in where NaN
is."""


class WantedKeys:
    """The different keys, of columns of these types. A key with a NULL in it has no partner, so it
    isn't one."""

    def __init__(self, types: Sequence[SqlType]) -> None:
        self.types = tuple(types)
        self._bounds: list[pa.Array | None] = [None] * len(types)
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._values: pa.Table | None = None
        self._is_too_many = False
        self.is_empty = True

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes in keys, a column each."""
        columns = batch.columns
        if any(column.null_count for column in columns):
            whole = columns[0].is_valid()
            for column in columns[1:]:
                whole = pc.and_(whole, column.is_valid())
            columns = [column.filter(whole) for column in columns]
        if not len(columns[0]):
            return
        self.is_empty = False
        for place, (column, kind) in enumerate(zip(columns, self.types, strict=True)):
            if kind.kind in ORDERED:
                self._bounds[place] = _bounds(column, self._bounds[place])
        if not self._is_too_many:
            self._gathered.append(
                pa.RecordBatch.from_arrays(columns, names=[f"k{i}" for i in range(len(columns))])
            )
            self._rows += len(columns[0])
            if self._rows > GATHERED_ROWS:
                self._reduce()

    @property
    def values(self) -> pa.Table | None:
        """The keys, columns k0, k1…, each row once; None where they are too many."""
        self._reduce()
        return self._values

    def bounds(self, place: int) -> tuple[pa.Scalar, pa.Scalar] | None:
        """The smallest and the largest value of a column; None where its type has no order that all
        agree on."""
        found = self._bounds[place]
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
    """The smallest and the largest of a column and of what is known already."""
    values = column if known is None else pa.concat_arrays([column, known])
    found = pc.min_max(values)
    return pa.array([found["min"], found["max"]], column.type)
