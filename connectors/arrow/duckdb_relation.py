"""Registered DuckDB relations.

A DuckDB connection has one open result at a time, and a relation does not expose its connection.
Two relations of one connection in one query would disturb each other, and waiting for each other
could last indefinitely. So all rows of a relation are read before the first is emitted, by one
thread at a time; large results are buffered in a temporary file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runnel.base.forks import SharedLock
from runnel.errors import OperationalError

BUFFERED_BYTES = 128 << 20
"""The size in bytes from which the rows are buffered on disk."""

_one_at_a_time = SharedLock("DuckDB relations")


def relation_schema(relation: Any) -> pa.Schema:
    """The Arrow schema of a relation.

    It is read from a result without rows, since an open stream would block the connection.
    """
    with _one_at_a_time:
        return pa.RecordBatchReader.from_stream(relation.limit(0)).schema


def relation_batches(
    relation: Any, names: Sequence[str], requested: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The columns at the indexes `requested` of a relation, whose columns are called `names`."""
    buffered: list[pa.RecordBatch] = []
    with tempfile.TemporaryFile(prefix="runnel-") as file:
        with _one_at_a_time:
            spilled = _read(relation, names, requested, buffered, file)
        if spilled:
            file.seek(0)
            with pa.ipc.open_stream(file) as reader:
                yield from reader
        else:
            yield from buffered


def _stream(
    relation: Any, names: Sequence[str], requested: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    if len(set(map(str.lower, names))) == len(names):
        # DuckDB then computes the requested columns only.
        chosen = relation.project(
            ", ".join('"' + names[i].replace('"', '""') + '"' for i in requested)
        )
        return iter(pa.RecordBatchReader.from_stream(chosen))
    return (batch.select(list(requested)) for batch in pa.RecordBatchReader.from_stream(relation))


def _read(
    relation: Any,
    names: Sequence[str],
    requested: Sequence[int],
    buffered: list[pa.RecordBatch],
    file: Any,
) -> bool:
    """Reads all rows into `buffered` or, if they are many, into the file. True: into the file."""
    size, writer = 0, None
    try:
        for batch in _stream(relation, names, requested):
            size += batch.nbytes
            if writer is None and size >= BUFFERED_BYTES:
                writer = pa.ipc.new_stream(file, batch.schema)
                for earlier in buffered:
                    writer.write_batch(earlier)
                buffered.clear()
            if writer is None:
                buffered.append(batch)
            else:
                writer.write_batch(batch)
    except Exception as error:
        if "busy" in str(error) or "open result" in str(error):
            raise OperationalError(
                "the DuckDB connection of a registered relation is in use",
                detail=str(error).partition("\n")[0],
                hint=(
                    "don't use it while a query reads the relation, or make the relation on a "
                    "cursor() of its own"
                ),
            ) from error
        raise
    finally:
        if writer is not None:
            writer.close()
    return writer is not None
