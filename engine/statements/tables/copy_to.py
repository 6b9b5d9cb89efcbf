"""COPY … TO: writes the rows of a query to a file, or to a folder of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.planner.plans import CopyToPlan, KeyGetPlan
from runnel.statements.call import StatementCall
from runnel.statements.queries import run_key_get, with_room

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.connectors.files.copy.copied_file import CopiedFile
    from runnel.connectors.files.copy.copied_folder import CopiedFolder
    from runnel.dag import DAG
    from runnel.runtime.light_job import Job
    from runnel.session.session import Session


def copy_to(session: Session, plan: CopyToPlan, call: StatementCall) -> int:
    """Writes the files, and returns the number of rows."""
    file = _target(plan, session.caller.access)
    if isinstance(plan.query, KeyGetPlan):
        return file.write(_found(session, plan.query, call))
    query = plan.query

    def run(dag: DAG) -> int:
        job = call.start(session, query, dag)
        try:
            return file.write(_batches(job))
        finally:
            if not job.is_done:
                job.cancel()
                job.wait()

    return with_room(session, query, run)


def _target(plan: CopyToPlan, access: Access | None) -> CopiedFile | CopiedFolder:
    # Loaded on first use: few statements write files.
    columns = [TableColumn(field.name, field.type) for field in plan.query.fields]
    from runnel.connectors.files.copy.copied_file import CopiedFile
    from runnel.connectors.files.copy.copied_folder import CopiedFolder, makes_folder

    if makes_folder(plan.options):
        return CopiedFolder(plan.path, plan.options, columns, access)

    return CopiedFile(plan.path, plan.options, columns, access)


def _batches(job: Job) -> Iterator[pa.RecordBatch]:
    while (batch := job.results.next_batch()) is not None:
        yield batch


def _found(session: Session, plan: KeyGetPlan, call: StatementCall) -> Iterator[pa.RecordBatch]:
    from runnel.results.rows import rows_as_batch

    result = run_key_get(session, plan, call)
    yield rows_as_batch(result.some(1), plan.fields)
