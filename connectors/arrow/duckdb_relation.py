"""Registered DuckDB relations.

A DuckDB connection has one open result at a time, and a relation doesn't tell which connection it
is of. Two relations of one connection in one query would be in each other's way, and waiting for
one another could last for ever. So the rows of a relation are read to the end before the first is
given, by one thread at a time; many of them wait in a temporary file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runnel.base.forks import SharedLock
from runnel.errors import OperationalError

HELD_BYTES = 128 << 20
"""From so many bytes on, rows wait on disk."""

_one_at_a_time = SharedLock("DuckDB relations")


def relation_schema(relation: Any) -> pa.Schema:
    """The Arrow schema of a relation. A stream left open would block its connection, so it is that
    of no rows of it."""
    with _one_at_a_time:
        return pa.RecordBatchReader.from_stream(relation.limit(0)).schema


def relation_batches(
    relation: Any, names: Sequence[str], wanted: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of a relation with the columns `names`: those at `wanted`."""
    held: list[pa.RecordBatch] = []
    with tempfile.TemporaryFile(prefix="runnel-") as file:
        with _one_at_a_time:
            spilled = _read(relation, names, wanted, held, file)
        if spilled:
            file.seek(0)
            with pa.ipc.open_stream(file) as reader:
                yield from reader
        else:
            yield from held


def _stream(relation: Any, names: Sequence[str], wanted: Sequence[int]) -> Iterator[pa.RecordBatch]:
    if len(set(map(str.lower, names))) == len(names):
        # DuckDB then computes no more than is wanted.
        chosen = relation.project(
            ", ".join('"' + names[i].replace('"', '""') + '"' for i in wanted)
        )
        return iter(pa.RecordBatchReader.from_stream(chosen))
    return (batch.select(list(wanted)) for batch in pa.RecordBatchReader.from_stream(relation))


def _read(
    relation: Any,
    names: Sequence[str],
    wanted: Sequence[int],
    held: list[pa.RecordBatch],
    file: Any,
) -> bool:
    """Reads all rows into `held` or, if they are many, into the file; whether into that."""
    size, writer = 0, None
    try:
        for batch in _stream(relation, names, wanted):
            size += batch.nbytes
            if writer is None and size >= HELD_BYTES:
                writer = pa.ipc.new_stream(file, batch.schema)
                for earlier in held:
                    writer.write_batch(earlier)
                held.clear()
            if writer is None:
                held.append(batch)
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
