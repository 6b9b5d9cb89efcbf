"""Plans that write rows: DML as a light job, by key without one, and a batch of argument lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.connector import KeyedTable, SinkRequest, WritableTable, WriteMode
from runnel.errors import ErrorCode, OperationalError
from runnel.expressions.nodes import Column, walk
from runnel.planner.plans import ClearPlan, KeyPutPlan, WritePlan
from runnel.relation.nodes import Field
from runnel.results.rows import rows_as_batch
from runnel.runtime.light_job import Job
from runnel.session.session import statement_check
from runnel.statements.call import StatementCall
from runnel.statements.queries import constants, evaluate_over_row, with_room

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.session.session import Session


def run_write(session: Session, plan: WritePlan, call: StatementCall) -> int:
    """Runs a light job that writes, and waits for it. The table is locked from before the scan
    until after the commit."""

    def run(dag: DAG) -> int:
        job = call.start(session, plan, dag)
        try:
            return _count(job)
        finally:
            # The sink may still write: the table stays locked until it has committed or aborted.
            if not job.is_done:
                job.cancel()
                job.wait()

    session.check_directory()
    with plan.table.exclusive():
        return with_room(session, plan, run)


def _count(job: Job) -> int:
    """The number of rows written: the sum of the job's result, which arrives after the commit.
    Therefore a job that is cancelled or times out after its result has written its rows."""
    count: int | None = None
    try:
        while (batch := job.results.next_batch()) is not None:
            count = (count or 0) + sum(batch.column(0).to_pylist())
    except OperationalError as error:
        if count is None or error.code not in (
            ErrorCode.CANCELLED,
            ErrorCode.TIMEOUT,
            ErrorCode.OUT_OF_MEMORY,
        ):
            raise
    return count or 0


def run_key_put(session: Session, plan: KeyPutPlan, call: StatementCall) -> int:
    """Writes literals and arguments."""
    session.check_directory()
    table = plan.table
    if len(plan.rows) > 1 or not isinstance(table, KeyedTable):
        check, rows = statement_check(), []
        for expressions in plan.rows:
            rows.append(constants(session, plan, expressions, call))
            check()  # a user function may take long
        fields = tuple(Field(table.columns[i].name, table.columns[i].type) for i in plan.columns)
        return write_batch(table, plan.mode, plan.columns, rows_as_batch(rows, fields))
    if plan.mode is WriteMode.UPDATE:
        return _update(session, plan, table, call)
    if plan.mode is WriteMode.DELETE:
        row: list[Any] = [None] * len(table.columns)
        for column, value in zip(
            table.key_columns, constants(session, plan, plan.rows[0], call), strict=True
        ):
            row[column] = value
        return table.put(tuple(row), WriteMode.DELETE)
    row = [None] * len(table.columns)
    for column, value in zip(
        plan.columns, constants(session, plan, plan.rows[0], call), strict=True
    ):
        row[column] = value
    return table.put(tuple(row), plan.mode)


def _update(session: Session, plan: KeyPutPlan, table: KeyedTable, call: StatementCall) -> int:
    key = constants(session, plan, plan.rows[0], call)
    if None in key:
        return 0
    with table.exclusive():
        old = table.get(key)
        if old is None:
            return 0
        expressions = tuple(expression for _, expression in plan.assignments)
        if any(isinstance(part, Column) for item in expressions for part in walk(item)):
            values = evaluate_over_row(table, old, expressions, call.evaluation(session, plan))
        else:
            values = constants(session, plan, expressions, call)
        new = list(old)
        for (column, _), value in zip(plan.assignments, values, strict=True):
            new[column] = value
        return table.put(tuple(new), WriteMode.UPDATE)


def run_clear(session: Session, plan: ClearPlan, call: StatementCall) -> int:
    """Removes all rows of a table."""
    session.check_directory()
    with plan.table.exclusive():
        return plan.table.clear()


def write_batch(
    table: WritableTable, mode: WriteMode, columns: tuple[int, ...], batch: pa.RecordBatch
) -> int:
    """Writes rows through a sink, all or none; returns their number."""
    with table.exclusive():
        sink = table.sink(SinkRequest(mode, columns))
        try:
            try:
                sink.write(batch)
                token = sink.stage(0)
            except BaseException:
                sink.abort(None)
                raise
            sink.commit(token)
        finally:
            sink.close()
    count: int = batch.num_rows
    return count
