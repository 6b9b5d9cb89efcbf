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
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.connector import REFUSALS, Sink, SinkRequest, Token, WriteMode
from runnel.deadline import PatientLock, RunningStatement
from runnel.errors import ErrorCode, OperationalError, ProgrammingError
from runnel.planner.explain.ddl import quoted, type_text
from runnel.planner.plans import WritePlan
from runnel.results.rows import Result
from runnel.statements.call import Caller
from runnel.storage.durable_files import OWN_FOLDER, replace_file, sync_folder
from runnel.storage.sealed_json import sealed, unsealed

if TYPE_CHECKING:
    from runnel.database import Database

FOLDER = "writers"
FORMAT = 2
"""The version of the files. The first was a list of number and token, without a checksum."""
Kept = tuple[int, Token | None]
"""The number of a writer's last batch, and what commits it, unless that is settled."""


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


class NumberedWrites:
    """Those of one connection. With a directory, what was written is known to the next process too.
    Safe for threads."""

    def __init__(self, directory: Path | None) -> None:
        self._folder = None if directory is None else directory / FOLDER
        self._kept: dict[str, Kept] = {}
        self._locks: dict[str, PatientLock] = {}
        self._lock = Lock()

    def write(
        self,
        database: Database,
        write: NumberedWrite,
        on_start: Callable[[Any], object],
        caller: Caller,
    ) -> int:
        """How many rows were written; 0 where the number was written before."""
        if write.statement not in ("INSERT", "SINK"):
            raise ProgrammingError("a numbered write is an INSERT or SINK of rows")
        plan = database.prepare(write.sql, (), caller=caller)
        if not isinstance(plan, WritePlan) or plan.mode not in (WriteMode.INSERT, WriteMode.SINK):
            raise ProgrammingError("a numbered write is an INSERT or SINK of rows")
        # A user's writer has numbers of its own: with those of the owner's it could have batches
        # passed over.
        writer = write.writer if caller.is_owner else f"user\0{write.writer}"
        owner = hashlib.sha256(f"{writer} {plan.table.name}".encode()).hexdigest()
        with self._lock:
            lock = self._locks.setdefault(owner, PatientLock("the numbers of its writer"))
        with RunningStatement(None, on_start, database.statements), lock:
            sink, before = self._recovered(owner, plan)
            try:
                if before is not None and write.number <= before[0]:
                    return 0
                count = _put(plan, write, sink, partial(_run, database, on_start, caller))
                self._commit(owner, write.number, sink, before)
                return count
            finally:
                sink.close()

    def _recovered(self, owner: str, plan: WritePlan) -> tuple[Sink, Kept | None]:
        """A sink that has committed what is kept of the writer's last batch, and what is kept."""
        before = self._load(owner)
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
            self._keep(owner, (before[0] - 1, None))
            return self._recovered(owner, plan)
        return sink, before

    def _commit(self, owner: str, number: int, sink: Sink, before: Kept | None) -> None:
        token = sink.stage(number)
        self._keep(owner, (number, token))
        try:
            sink.commit(token)
        except REFUSALS:
            self._keep(owner, before)
            sink.abort(token)
            raise

    def _load(self, owner: str) -> Kept | None:
        if self._folder is None or owner in self._kept:
            return self._kept.get(owner)
        file = self._folder / f"{owner}.json"
        try:
            found = unsealed(file.read_bytes(), FORMAT)
            number, token = found if isinstance(found, list) else (found["number"], found["token"])
            return int(number), token
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise OperationalError(
                "what is kept of the batches that a writer has committed can't be read",
                code=ErrorCode.INPUT_OUTPUT,
                detail=f"{file}: {error}",
                hint="bring the file back; without it the writer's last batch may be there twice",
            ) from error

    def _keep(self, owner: str, value: Kept | None) -> None:
        if value is None:
            self._kept.pop(owner, None)
        else:
            self._kept[owner] = value
        if self._folder is None:
            return
        file = self._folder / f"{owner}.json"
        try:
            self._folder.mkdir(mode=OWN_FOLDER, exist_ok=True)
            if value is None:
                file.unlink(missing_ok=True)
            else:
                replace_file(
                    file, sealed({"format": FORMAT, "number": value[0], "token": value[1]})
                )
            sync_folder(self._folder)
        except OSError as error:
            raise OperationalError(
                "the number of a writer's batch can't be kept",
                code=ErrorCode.INPUT_OUTPUT,
                detail=f"{file}: {error.strerror or error}",
                hint="make room on the disk",
            ) from error


def _run(
    database: Database, on_start: Callable[[Any], object], caller: Caller, query: str
) -> Result:
    result = database.run(query, (), None, on_start, caller)
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
