"""Writes that have numbers: what a writer outside has written under a number isn't written again.

Such a writer, a stream of Spark's for one, hands over batch after batch, and after a failure maybe
one that it has handed over before. Its rows are staged in the sink under the writer's name; then
number and token are kept; then they are committed. So whatever is cut short, the next write of that
writer knows what counts.
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
    """Rows of the tables named `rows`, which have these columns, for `table`. `statement` is INSERT
    or SINK. A writer's numbers rise."""

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
    # A user's writer has numbers of its own: with those of the owner's it could have batches
    # passed over.
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
    """A sink that has committed what is kept of the writer's last batch, and what is kept."""
    before = numbers.load(owner)
    token = None if before is None else before[1]
    sink = plan.table.sink(SinkRequest(plan.mode, plan.columns, f"writer/{owner}"))
    try:
        sink.recover([] if token is None else [token])
    except BaseException as error:
        sink.close()
        if before is None or token is None or not isinstance(error, REFUSALS):
            raise
        # A process ended before its writer was told that the batch is refused: the writer comes
        # with it again, or another.
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
    """Gives the sink all rows, each value in the type of its column."""
    types = [type_text(field.type) for field in plan.logical.fields]
    columns = ", ".join(
        f"CAST({quoted(name)} AS {kind})" for name, kind in zip(write.columns, types, strict=True)
    )
    count = 0
    for batch in run(write.query(columns)).batches():
        sink.write(batch)
        count += batch.num_rows
    return count
