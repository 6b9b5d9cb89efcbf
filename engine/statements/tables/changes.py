"""INSERT with ON CONFLICT, MERGE, UPDATE … FROM, DELETE … USING, and writes with RETURNING.

The rows to change are computed by a query and gathered; then they are written, all or none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.connector import KeyedTable, SinkRequest, WriteMode
from runnel.errors import ProgrammingError
from runnel.planner.plans import DELETED, INSERTED, UPDATED, ChangePlan, InsertRule, RowChanges
from runnel.results.rows import Result
from runnel.statements.queries import run_query, with_room

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.session.session import Session
    from runnel.statements.call import Outcome, StatementCall

_ACTIONS = ("INSERT", "UPDATE", "DELETE")


def run_change(session: Session, plan: ChangePlan, call: StatementCall) -> Outcome:
    """Changes the rows; returns their number, or the rows of RETURNING."""
    session.check_directory()
    table = plan.table
    with table.exclusive():
        pin: AbstractContextManager[object] = (
            table.pinned() if isinstance(table, RowChanges) else nullcontext()
        )
        with pin:
            rows = _gathered(session, plan, call)
            if isinstance(table, RowChanges):
                changed = _by_number(plan, table, rows)
            else:
                changed = _by_key(plan, cast(KeyedTable, table), rows)
    if plan.returning is None:
        return int(changed.num_rows)
    return _returned(session, plan, changed, call)


def _gathered(session: Session, plan: ChangePlan, call: StatementCall) -> pa.Table:
    """The rows of the query, in batches of one table."""

    def run(dag: DAG) -> list[pa.RecordBatch]:
        job = call.start(session, plan.rows, dag)
        batches = []
        try:
            while (batch := job.results.next_batch()) is not None:
                batches.append(batch)
        finally:
            if not job.is_done:
                job.cancel()
                job.wait()
        return batches

    batches = with_room(session, plan.rows, run)
    names = [str(i) for i in range(len(plan.rows.fields))]
    if not batches:
        from runnel.sqltypes import to_arrow

        schema = pa.schema(
            [
                pa.field(name, to_arrow(field.type))
                for name, field in zip(names, plan.rows.fields, strict=True)
            ]
        )
        return pa.Table.from_batches([], schema)
    return pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches]
    )


def _by_number(plan: ChangePlan, table: RowChanges, rows: pa.Table) -> pa.Table:
    """Writes rows that have numbers; returns the action and the columns of the changed rows."""
    numbers = rows.column(1).to_numpy()
    is_old = pc.not_equal(rows.column(0), INSERTED).to_numpy()
    rows = _once(plan, rows, np.where(is_old, numbers, -1), is_old)
    if plan.key and plan.rule is InsertRule.FAIL:
        _check_twice(plan, rows)
    returned = table.change(rows, plan.columns, plan.rule.value, plan.key)
    if plan.rule is not InsertRule.IGNORE:
        return rows.remove_column(1)
    action = pa.array(np.full(returned.num_rows, INSERTED, np.int32))
    names = [rows.column_names[0], *rows.column_names[2:]]
    return pa.Table.from_arrays([action, *returned.columns], names=names)


def _once(plan: ChangePlan, rows: pa.Table, numbers: np.ndarray, is_old: np.ndarray) -> pa.Table:
    """The rows without repetitions of an existing row; an error if they are not allowed.

    numbers   7 7 9 -1 -1     the row number, -1 for new rows
    is_old    1 1 1  0  0
    first     0 2             the first index of each number of an old row
    result    0 2 3 4
    """
    old = np.flatnonzero(is_old)
    _, first = np.unique(numbers[old], return_index=True)
    if len(first) == len(old):
        return rows
    if not plan.allows_repeats:
        raise ProgrammingError(
            f'a row of table "{plan.table.name}" would be changed twice',
            detail="several rows of the source match it",
            hint="let one row of the source match: SELECT DISTINCT, GROUP BY, or QUALIFY",
        )
    chosen = np.concatenate([old[first], np.flatnonzero(~is_old)])
    return rows.take(pa.array(np.sort(chosen), pa.int64()))


def _check_twice(plan: ChangePlan, rows: pa.Table) -> None:
    """ProgrammingError if two new rows of ON CONFLICT DO UPDATE have the same key."""
    names = [plan.table.columns[i].name for i in plan.columns]
    offset = rows.num_columns - len(names)
    columns = [offset + names.index(name) for name in plan.key]
    new = rows.filter(pc.equal(rows.column(0), INSERTED)).select(columns)
    for column in range(new.num_columns):
        new = new.filter(pc.is_valid(new.column(column)))
    try:
        distinct = new.group_by(new.column_names).aggregate([]).num_rows
    except pa.ArrowNotImplementedError:
        distinct = len({tuple(row.values()) for row in new.to_pylist()})
    if distinct < new.num_rows:
        raise ProgrammingError(
            f'ON CONFLICT DO UPDATE would change a row of table "{plan.table.name}" twice',
            detail=f"two new rows have the same {', '.join(plan.key)}",
            hint="let the query return one row for each key: GROUP BY, or QUALIFY",
        )


def _by_key(plan: ChangePlan, table: KeyedTable, rows: pa.Table) -> pa.Table:
    """Writes rows that have keys; returns the action and the columns of the changed rows."""
    rows = rows.combine_chunks()
    if plan.rule is InsertRule.IGNORE:
        rows = _new_keys(plan, table, rows)
    elif plan.key:
        _check_twice(plan, rows)
    elif plan.allows_repeats:
        keys = [plan.columns.index(i) + 1 for i in table.key_columns]
        rows = rows.take(pa.array(_first_of_each(rows, keys), pa.int64()))
    if not rows.num_rows:
        return rows
    action = rows.column(0)[0].as_py()
    mode, columns = WriteMode.INSERT, plan.columns
    if action == DELETED:
        mode, columns = WriteMode.DELETE, table.key_columns
    elif plan.key or plan.rule is InsertRule.REPLACE:
        mode = WriteMode.SINK
    elif action == UPDATED:
        mode = WriteMode.UPDATE
    chosen = rows.select([plan.columns.index(i) + 1 for i in columns])
    sink = table.sink(SinkRequest(mode, columns))
    try:
        try:
            for batch in chosen.to_batches():
                sink.write(batch)
            token = sink.stage(0)
        except BaseException:
            sink.abort(None)
            raise
        sink.commit(token)
    finally:
        sink.close()
    return rows


def _new_keys(plan: ChangePlan, table: KeyedTable, rows: pa.Table) -> pa.Table:
    """The first row of each key that the table does not have."""
    if not rows.num_rows:
        return rows
    keys = [plan.columns.index(i) + 1 for i in table.key_columns]
    rows = rows.take(pa.array(_first_of_each(rows, keys), pa.int64())).combine_chunks()
    arrays = [rows.column(i).chunk(0) for i in keys]
    is_valid = np.logical_and.reduce([pc.is_valid(array).to_numpy(False) for array in arrays])
    if not is_valid.all():
        return rows  # the write refuses a key that is NULL
    _, exists = table.get_many(arrays)
    return rows.filter(pa.array(~np.asarray(exists)))


def _first_of_each(rows: pa.Table, columns: list[int]) -> list[int]:
    """The index of the first row of each value of the columns, in order."""
    values = zip(*(rows.column(i).to_pylist() for i in columns), strict=True)
    first: dict[object, int] = {}
    for index, value in enumerate(values):
        first.setdefault(value, index)
    return list(first.values())


def _returned(session: Session, plan: ChangePlan, changed: pa.Table, call: StatementCall) -> Result:
    assert plan.returning is not None
    columns = list(range(1, changed.num_columns))
    found = changed.select(columns)
    if plan.has_action:
        names = pa.array(
            [_ACTIONS[action] for action in changed.column(0).to_pylist()], pa.string()
        )
        found = found.append_column("merge_action", names)
    return run_query(session, plan.returning(found.combine_chunks().to_batches()), call)
