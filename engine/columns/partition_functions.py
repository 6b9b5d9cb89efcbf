"""The functions of users by which edges divide rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes
from runnel.dag import Partitioner
from runnel.errors import ProgrammingError, exception_text


def partitions_of(function: Partitioner, keys: pa.RecordBatch, count: int, edge: str) -> Indexes:
    """Return the partition of each row. ProgrammingError if the function fails, or returns anything
    else than a partition for each row.

    keys: the key columns.
    count: the number of partitions.
    edge: name of the edge.
    """
    try:
        found = function(keys, count)
    except Exception as error:
        raise ProgrammingError(
            f"the partition function of the edge {edge} failed",
            detail=exception_text(error),
        ) from error
    targets = _checked(found, keys.num_rows, edge)
    wrong = np.flatnonzero((targets < 0) | (targets >= count))
    if len(wrong):
        row = int(wrong[0])
        key = ", ".join(f"{name}={column[row].as_py()!r}" for name, column in _named(keys))
        raise _refused(edge, f"partition {int(targets[row])} for the key {key}", count)
    return targets


def _checked(found: Any, rows: int, edge: str) -> Indexes:
    if isinstance(found, pa.Array | pa.ChunkedArray):
        if found.null_count:
            raise _refused(edge, "NULL")
        found = (
            found.to_numpy(zero_copy_only=False)
            if isinstance(found, pa.Array)
            else (found.to_numpy())
        )
    try:
        targets = np.asarray(found)
    except Exception:
        raise _refused(edge, f"a value of class {type(found).__name__}") from None
    if targets.ndim != 1 or (targets.dtype.kind not in "iu" and rows):
        raise _refused(edge, f"a {type(found).__name__} of {targets.dtype}")
    if len(targets) != rows:
        raise _refused(edge, f"{len(targets)} numbers for {rows} rows")
    return targets.astype(np.int64)


def _refused(edge: str, found: str, count: int | None = None) -> ProgrammingError:
    most = "the number of partitions - 1" if count is None else str(count - 1)
    return ProgrammingError(
        f"the partition function of the edge {edge} returned {found}",
        hint=f"return an array with an integer from 0 to {most} for each row",
    )


def _named(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    return list(zip(batch.schema.names, batch.columns, strict=True))
