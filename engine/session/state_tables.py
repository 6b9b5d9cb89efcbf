"""JOB_STATE and SNAPSHOT_STATE: the state of a vertex in a snapshot, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.catalog import Table
from runnel.connectors.arrow.tables import registered_table
from runnel.errors import ErrorCode, OperationalError, ProgrammingError, as_written, suggest
from runnel.snapshots.store import SnapshotStore

if TYPE_CHECKING:
    from runnel.named_jobs.registry import NamedJobs

FUNCTIONS = ("job_state", "snapshot_state")


def state_table(
    jobs: NamedJobs,
    function: str,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    *,
    is_confined: bool,
) -> Table:
    """The table of JOB_STATE(job, vertex), from the job's last snapshot, or of
    SNAPSHOT_STATE(snapshot, vertex). A caller with bounds sees only the state of jobs that were
    created within bounds: other state may contain data from outside."""
    shown = function.upper()
    first = "job" if function == "job_state" else "snapshot"
    arguments = dict(zip((first, "vertex"), positional, strict=False)) | {
        key.lower(): value for key, value in named.items()
    }
    wrong = (
        len(positional) > 2
        or len(arguments) < len(positional) + len(named)
        or set(arguments) != {first, "vertex"}
    )
    if wrong or not all(isinstance(value, str) for value in arguments.values()):
        raise ProgrammingError(
            f"{shown} needs the names of a {first} and of a vertex",
            hint=f"write TABLE({shown}('{first}', 'vertex'))",
        )
    store = _store(jobs, first, arguments[first], is_confined=is_confined)
    with store.pin():
        return registered_table(function, _rows(_state(store, first, arguments)))


def _state(
    store: SnapshotStore, first: str, arguments: Mapping[str, str]
) -> Sequence[pa.RecordBatch]:
    name = arguments[first]
    snapshot_id = store.completed
    if snapshot_id is None:
        raise OperationalError(
            f'{first} "{name}" has no snapshot',
            code=ErrorCode.GENERIC,
            hint=f"CREATE SNAPSHOT s FOR JOB {as_written(name)} takes one",
        )
    vertices = store.vertices(snapshot_id)
    if arguments["vertex"] not in vertices:
        listed = ", ".join(f"'{vertex}'" for vertex in sorted(vertices)) or "none"
        raise ProgrammingError(
            f'{first} "{name}" has no state of a vertex "{arguments["vertex"]}"',
            code=ErrorCode.OBJECT_NOT_FOUND,
            detail=f"there is state of {listed}",
            hint=suggest(arguments["vertex"], vertices),
        )
    return store.read(snapshot_id, arguments["vertex"])


def _store(jobs: NamedJobs, kind: str, name: str, *, is_confined: bool) -> SnapshotStore:
    job = jobs.get(name) if kind == "job" else None
    snapshot = jobs.snapshots.get(name) if job is None else None
    has_bounds = (
        snapshot.is_confined if snapshot is not None else job is not None and job.record.is_confined
    )
    if is_confined and not has_bounds:
        raise ProgrammingError(
            f'the state of {kind} "{name}" is the owner\'s', code=ErrorCode.NOT_ALLOWED
        )
    found = snapshot or job
    assert found is not None
    return found.store


def _rows(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """One table: a column that some of the rows don't have is NULL in them; one of several types
    becomes text."""
    tables = [pa.Table.from_batches([batch.replace_schema_metadata(None)]) for batch in batches]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowInvalid:
        texts = [
            pa.table({name: _texts(item.column(name)) for name in item.column_names})
            for item in tables
        ]
        return pa.concat_tables(texts, promote_options="permissive")


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array(
        [[None if value is None else str(value) for value in column.to_pylist()]], pa.string()
    )
