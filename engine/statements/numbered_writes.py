"""Numbered writes: a batch that an external writer has written under a number isn't written again.

Such a writer, for example a stream of Spark, sends batch after batch, and after a failure it may
send a batch again. The rows of a batch are staged in the sink under the writer's name; then number
and token are stored; then the rows are committed. After an interruption at any point, the next
write of that writer finds whether the batch counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.connector import REFUSALS, Sink, SinkRequest, WriteMode
from runnel.deadline import RunningStatement
from runnel.errors import ProgrammingError
from runnel.planner.explain.ddl import quoted, type_text
from runnel.planner.plans import WritePlan
from runnel.results.rows import Result

if TYPE_CHECKING:
    from runnel.session.writers import Kept, WriterNumbers
    from runnel.statements.run import SessionExecutor


@frozen(kw_only=True)
class NumberedWrite:
    """One batch of an external writer.

    writer: name of the writer.
    number: the numbers of a writer increase.
    statement: INSERT or SINK.
    table: the table to write.
    columns: the columns to write.
    rows: names of tables with these columns, whose rows are written.
    """

    writer: str
    number: int
    statement: str
    table: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def sql(self) -> str:
        columns = ", ".join(map(quoted, self.columns))
        return f"{self.statement} INTO {quoted(self.table)} ({columns}) {self.query(columns)}"

    def query(self, columns: str) -> str:
        """The rows, of these columns."""
        return " UNION ALL ".join(f"SELECT {columns} FROM {quoted(name)}" for name in self.rows)


def write_once(
    executor: SessionExecutor, write: NumberedWrite, on_start: Callable[[Any], object]
) -> int:
    """The number of rows written; 0 if the batch of that number was written before."""
    if write.statement not in ("INSERT", "SINK"):
        raise ProgrammingError("a numbered write is an INSERT or SINK of rows")
    session = executor.session
    plan = session.prepare(write.sql, ())
    if not isinstance(plan, WritePlan) or plan.mode not in (WriteMode.INSERT, WriteMode.SINK):
        raise ProgrammingError("a numbered write is an INSERT or SINK of rows")
    # A user's writer has its own numbers: with the numbers of the owner's writer it could make
    # the owner's batches count as written.
    writer = write.writer if session.caller.is_owner else f"user\0{write.writer}"
    owner = hashlib.sha256(f"{writer} {plan.table.name}".encode()).hexdigest()
    numbers = session.writer_numbers
    with RunningStatement(None, on_start, session.statements), numbers.lock_of(owner):
        sink, before = _recovered(numbers, owner, plan)
        try:
            if before is not None and write.number <= before[0]:
                return 0
            count = _put(plan, write, sink, partial(_run, executor, on_start))
            _commit(numbers, owner, write.number, sink, before)
            return count
        finally:
            sink.close()


def _recovered(numbers: WriterNumbers, owner: str, plan: WritePlan) -> tuple[Sink, Kept | None]:
    """A sink that has committed the writer's last batch, and the stored number of that batch."""
    before = numbers.load(owner)
    token = None if before is None else before[1]
    sink = plan.table.sink(SinkRequest(plan.mode, plan.columns, f"writer/{owner}"))
    try:
        sink.recover([] if token is None else [token])
    except BaseException as error:
        sink.close()
        if before is None or token is None or not isinstance(error, REFUSALS):
            raise
        # A process ended before it reported to the writer that the batch is refused: the writer
        # sends the batch again, or another one.
        numbers.keep(owner, (before[0] - 1, None))
        return _recovered(numbers, owner, plan)
    return sink, before


def _commit(
    numbers: WriterNumbers, owner: str, number: int, sink: Sink, before: Kept | None
) -> None:
    token = sink.stage(number)
    numbers.keep(owner, (number, token))
    try:
        sink.commit(token)
    except REFUSALS:
        numbers.keep(owner, before)
        sink.abort(token)
        raise


def _run(executor: SessionExecutor, on_start: Callable[[Any], object], query: str) -> Result:
    result = executor.run(query, (), None, on_start)
    assert not isinstance(result, int)
    return result


def _put(plan: WritePlan, write: NumberedWrite, sink: Sink, run: Callable[[str], Result]) -> int:
    """Writes all rows to the sink, each value in the type of its column."""
    types = [type_text(field.type) for field in plan.logical.fields]
    columns = ", ".join(
        f"CAST({quoted(name)} AS {kind})" for name, kind in zip(write.columns, types, strict=True)
    )
    count = 0
    for batch in run(write.query(columns)).batches():
        sink.write(batch)
        count += batch.num_rows
    return count
