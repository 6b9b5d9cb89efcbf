"""The DB-API cursor: runs one statement at a time, and returns its rows as tuples, Arrow, pandas or
Polars.

One thread or coroutine at a time uses a cursor, which the cursor checks; only `close`, `cancel` and
`progress` may be called by other threads meanwhile. Errors get the statement's text here, and all
exceptions are converted to PEP 249 errors, except KeyboardInterrupt and similar ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pyarrow as pa

from runnel.deadline import Deadline, WaitLimit, wait_limit, waiting_time
from runnel.errors import (
    FetchTimeoutError,
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    fail,
    presentable,
    short_errors,
    shorten,
)
from runnel.results.calls import RelationQuery
from runnel.results.forms import Forms, required
from runnel.results.rows import (
    DECODE_ROWS,
    FAILED,
    SHOWN_ROWS,
    ColumnDescription,
    Result,
    Row,
    describe,
    in_use_error,
)
from runnel.runtime.light_job import Job

if TYPE_CHECKING:
    from types import TracebackType

    from runnel.results.progress import QueryProgress
    from runnel.statements.arguments import Arguments
    from runnel.statements.call import Engine, StartedStatement


class CursorConnection(Protocol):
    """The connection that made a cursor; see `Connection`."""

    def cursor(self) -> Cursor:
        """A new cursor."""

    def commit(self) -> None:
        """Ends the open transaction, if there is one."""

    def rollback(self) -> None:
        """Undoes the open transaction, if there is one."""

    def close(self) -> None:
        """Closes the connection."""


class Cursor(Forms):
    """Runs statements and returns their rows. Created by `Connection.cursor`."""

    __module__ = "runnel"
    _connection: CursorConnection

    def __init__(self, connection: CursorConnection, database: Engine) -> None:
        self._connection = connection
        self._database = database
        self._is_closed = False
        # Whether a thread or coroutine is in a call. No function is called between the check and
        # the assignment, so under the interpreter lock no other thread can run between them.
        self._is_used = False
        self._result: Result | None = None
        # The job of a statement that is being executed, before its rows can be fetched.
        self._starting: StartedStatement | None = None
        # The deadline of the statement while it is being executed, for waits outside of jobs.
        self._deadline: Deadline | None = None
        self._is_cancelled = False
        self._rowcount = -1
        self._arraysize = 1
        self._sql: str | None = None

    @property
    def arraysize(self) -> int:
        """The number of rows that `fetchmany` returns by default: 1 or more."""
        return self._arraysize

    @arraysize.setter
    def arraysize(self, size: int) -> None:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ProgrammingError(f"arraysize must be a number of rows from 1 on, not {size!r}")
        self._arraysize = size

    # Running

    def execute(self, sql: str, args: Arguments = (), *, timeout: float | None = None) -> Cursor:
        """Runs a statement; `args` are the values of its parameters: of `?` and `$1` in order, of
        `:name` and `$name` as a dictionary. Of several with semicolons between them the last has
        the arguments and the result. Returns the cursor itself.

        An unbounded query returns at once. `timeout`, in seconds, limits the whole statement,
        including waits in later fetches: after it they raise OperationalError with code TIMEOUT.
        """
        try:
            self._start(sql)
            return self._execute(sql, args, timeout)
        except BaseException as error:
            shorten(error)
            raise

    def _execute(self, sql: str, args: Arguments, timeout: float | None) -> Cursor:
        """The rest of `execute` after `_start`."""
        try:
            if ";" in sql:
                outcome = self._script(sql, args, timeout)
            else:
                outcome = self._database.run(sql, args, timeout, self._watch)
            if isinstance(outcome, int):
                self._rowcount = outcome
            else:
                self._result = outcome
        except BaseException as error:
            self._fail(error)
        finally:
            self._starting = self._deadline = None
            self._is_used = False
        return self

    @short_errors
    def sql(self, query: str, args: Arguments = (), *, timeout: float | None = None) -> Cursor:
        """`execute` of a query that can run again, as a relation; of one that ends it also waits
        for the rows that a prompt shows."""
        self._run(RelationQuery(query, args), timeout)
        self._gather(SHOWN_ROWS + 1)
        return self

    @short_errors
    def executemany(
        self, sql: str, seq_of_args: Iterable[Arguments], *, timeout: float | None = None
    ) -> Cursor:
        """Runs one statement for each of many argument lists.

        INSERT and SINK of VALUES bind all of them as one batch and write it once: all or nothing.
        Another INSERT, UPDATE or DELETE runs once for each. Queries are refused.
        """
        self._start(sql)
        try:
            self._rowcount = self._database.run_many(sql, seq_of_args, timeout, self._watch)
        except BaseException as error:
            self._fail(error)
        finally:
            self._starting = self._deadline = None
            self._is_used = False
        return self

    def cancel(self) -> None:
        """Cancels the cursor's statement; may be called from any thread. A waiting `execute` or
        fetch, and later fetches, raise OperationalError with code CANCELLED; rows that were being
        written are not written. Does nothing if no statement runs."""
        self._database.origin.check()
        self._is_cancelled = True  # set first: `_watch` sets the job before it reads this
        for running in (self._deadline, self._result or self._starting):
            if running is not None:
                running.cancel()

    def progress(self) -> QueryProgress | None:
        """The progress of the statement, step by step, including tasks of Spark; print it. May be
        called from any thread, also during `execute` or a fetch. None if the statement does not run
        in this process, or has ended."""
        from runnel.results.progress import progress_of

        self._database.origin.check()
        job = self._starting if self._result is None else self._result.job
        if isinstance(job, Job):
            return progress_of(job)
        report = None if (waiting := self._deadline) is None else waiting.report
        return None if report is None else report()

    def close(self) -> None:
        """Cancels the cursor's job and releases its rows. The cursor cannot be used afterwards."""
        self._is_closed = True
        self._discard()

    # Fetching rows. A fetch with a timeout, in seconds, that finds no row until then raises
    # FetchTimeoutError: the query continues, no row is lost, and the next fetch may be called.

    def fetchone(self, timeout: float | None = None) -> Row | None:
        """The next row, for which it waits; None after the last. FetchTimeoutError after `timeout`
        seconds; 0 waits for nothing."""
        try:
            limit = None if timeout is None else wait_limit(timeout)
            result = self._rows()
            if self._is_used:
                raise in_use_error()
            self._is_used = True
            try:
                return result.one(limit)
            except BaseException as error:
                self._fail(error)
            finally:
                self._is_used = False
        except BaseException as error:
            shorten(error)
            raise

    @short_errors
    def fetchmany(self, size: int | None = None, timeout: float | None = None) -> list[Row]:
        """The next `size` rows (`arraysize` by default), fewer at the end, then []. For an
        unbounded query: the rows available now, at least one. After `timeout` seconds: the rows
        that have arrived, FetchTimeoutError if there are none."""
        count, limit = self._count(size, "fetchmany"), wait_limit(timeout)
        with self._using(self._rows()) as result:
            return result.some(count, limit)

    def fetchall(self, timeout: float | None = None) -> list[Row]:
        """All remaining rows. NotSupportedError for a query that never ends; for a stream that can
        end it waits. FetchTimeoutError if the end has not arrived after `timeout` seconds: then
        all rows remain to be fetched."""
        try:
            limit = None if timeout is None else wait_limit(timeout)
            result = self._rows_with_end("fetchall")
            if self._is_used:
                raise in_use_error()
            self._is_used = True
            try:
                if limit is not None:
                    result.receive(limit)
                return result.rest()
            except BaseException as error:
                self._fail(error)
            finally:
                self._is_used = False
        except BaseException as error:
            shorten(error)
            raise

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        try:
            row = self.fetchone()
        except BaseException as error:
            shorten(error)
            raise
        if row is None:
            raise StopIteration
        return row

    # The same in a coroutine: other coroutines run while it waits, and no thread waits for it

    @short_errors
    async def execute_async(
        self, sql: str, args: Arguments = (), *, timeout: float | None = None
    ) -> Cursor:
        """`execute` on another thread, for statements that take long before they return rows, such
        as INSERT. Cancelling the task cancels the statement; the task ends when the thread has left
        it."""
        from asyncio import CancelledError, get_running_loop, shield, wait
        from functools import partial

        from runnel.session.python_scan import called_for, caller

        self._start(sql)
        call = partial(called_for, caller(), self._execute, sql, args, timeout)
        try:
            running = get_running_loop().run_in_executor(None, call)
        except BaseException:
            self._is_used = False
            raise
        try:
            await shield(running)
        except CancelledError:
            self.cancel()
            await wait((running,))
            raise
        return self

    @short_errors
    async def fetchone_async(self, timeout: float | None = None) -> Row | None:
        """As `fetchone`."""
        limit = wait_limit(timeout)
        with self._using(self._rows(), Exception) as result:
            await result.news(limit)
            return result.one()

    @short_errors
    async def fetchmany_async(
        self, size: int | None = None, timeout: float | None = None
    ) -> list[Row]:
        """As `fetchmany`."""
        count, limit = self._count(size, "fetchmany_async"), wait_limit(timeout)
        return await self._some_async(self._rows(), count, limit)

    @short_errors
    async def fetchall_async(self, timeout: float | None = None) -> list[Row]:
        """As `fetchall`."""
        limit = wait_limit(timeout)
        result = self._rows_with_end("fetchall_async")
        if limit is None:
            return await self._some_async(result, None, None)
        with self._using(result, Exception):
            await result.receive_async(limit)
            return result.rest()

    async def _some_async(
        self, result: Result, count: int | None, limit: WaitLimit | None
    ) -> list[Row]:
        """The next `count` rows (None: all), fewer at the end and after the limit; for an unbounded
        query with a `count`, the rows available now."""
        rows: list[Row] = []
        with self._using(result, Exception):
            while count is None or len(rows) < count:
                if rows and result.is_unbounded and count is not None and not result.has_ready:
                    break
                try:
                    await result.news(limit)
                except FetchTimeoutError:
                    if not rows:
                        raise
                    break
                taken = result.ready(DECODE_ROWS if count is None else count - len(rows))
                if not taken:
                    first = result.one()
                    if first is None:
                        break
                    taken = [first]
                rows += taken
        return rows

    def __aiter__(self) -> Cursor:
        return self

    @short_errors
    async def __anext__(self) -> Row:
        row = await self.fetchone_async()
        if row is None:
            raise StopAsyncIteration
        return row

    @short_errors
    def fetch_arrow_table(self, timeout: float | None = None) -> pa.Table:
        """All remaining rows as a pyarrow Table; waits and refuses like `fetchall`."""
        return self._table("fetch_arrow_table", timeout)

    @short_errors
    def fetch_record_batch(self, timeout: float | None = None) -> pa.RecordBatchReader:
        """The remaining rows as a stream of batches, each produced on demand; also for unbounded
        queries. The query lives as long as the reader, but only until the cursor runs another
        statement or is closed. Reading a batch raises FetchTimeoutError if it has not arrived
        `timeout` seconds after the reader was asked for it; the reader can be read again."""
        from runnel.results.record_batches import RecordBatches

        seconds = waiting_time(timeout)
        self._begin_again()
        result = self._rows()
        batches = RecordBatches(self, result, seconds)
        return pa.RecordBatchReader.from_batches(batches.schema, batches)

    @short_errors
    def fetch_df(self, timeout: float | None = None) -> Any:
        """All remaining rows as a pandas DataFrame; waits and refuses like `fetchall`."""
        required("pandas")
        return self._table("fetch_df", timeout).to_pandas()

    @short_errors
    def fetch_polars(self, timeout: float | None = None) -> Any:
        """All remaining rows as a Polars DataFrame; waits and refuses like `fetchall`."""
        polars = required("polars")
        return polars.from_arrow(self._table("fetch_polars", timeout))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The remaining rows, through the Arrow C stream interface."""
        return self.fetch_record_batch().__arrow_c_stream__(requested_schema)

    # For people; see `results.display`

    @short_errors
    def show(self, max_rows: int = SHOWN_ROWS, max_width: int | None = None) -> None:
        """Prints the next rows as a table; they remain to be fetched. It waits for the rows of a
        query that ends. Of a stream it prints the rows that have arrived.

        max_rows: maximum number of rows.
        max_width: maximum number of characters of a line; None: the width of the terminal; 0: no
            maximum.
        """
        from runnel.results.display import checked_size, print_text

        rows = checked_size("max_rows", max_rows)
        width = None if max_width is None else checked_size("max_width", max_width)
        self._check_open()
        self._begin_again()
        self._begin()
        self._gather(rows + 1)
        print_text(self._text(rows, width))

    def __repr__(self) -> str:
        if self._is_closed or self._sql is None:
            return f"<runnel.Cursor {'closed' if self._is_closed else 'idle'}>"
        if self._is_used:
            return f"<runnel.Cursor in use by {self._sql!r}>"
        return self._text(SHOWN_ROWS, None)

    def _text(self, rows: int, width: int | None) -> str:
        if self._result is None and self._query is not None:
            return f"a relation: show() or a fetch runs {self._sql}"
        from runnel.results.display import shown_text

        return shown_text(self._result, self._sql, self._rowcount, rows, width)

    def _repr_html_(self) -> str:
        """The HTML for a notebook: columns and the next rows, which remain to be fetched. It waits
        for the first rows of a query that ends."""
        from runnel.results.notebook import html_of

        if self._is_closed:
            return "<p>the cursor is closed</p>"
        self._begin()
        return html_of(self._result, self._sql, self._rowcount)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Both forms for a notebook, which shows one of them."""
        html = self._repr_html_()  # after it, the rows for the text have arrived
        return {"text/plain": repr(self), "text/html": html}

    # Attributes of the statement

    @property
    def connection(self) -> CursorConnection:
        """The connection that made the cursor."""
        return self._connection

    @property
    def description(self) -> list[ColumnDescription] | None:
        """The columns of the query's rows; None if the statement has none."""
        self._begin()
        result = self._result
        if result is None:
            return None
        return [describe(name, sql_type) for name, sql_type in result.fields]

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement wrote, or, after the last row was fetched,
        returned; −1 while it is unknown."""
        return max(self._rowcount, -1) if self._result is None else self._result.total

    @property
    def is_unbounded(self) -> bool:
        """Whether the query's rows have no end that is known beforehand."""
        return self._result is not None and self._result.is_unbounded

    @property
    def epoch(self) -> int | None:
        """For a query with EMIT CHANGES: the last epoch all of whose rows were fetched. The weights
        of the rows up to it add up to the result of the query at that epoch. None before the first
        epoch is complete, and for other statements."""
        return None if self._result is None else self._result.epoch

    @property
    def query(self) -> str | None:
        """The text of the last statement. Of a relation it can be called, as in DuckDB:
        `r.query('name', 'SELECT … FROM name')`."""
        return self._sql if self._query is None else self._callable_text()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing: types come from the statement and the values."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values are never truncated."""

    def __enter__(self) -> Cursor:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Internal

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError(
                "the cursor is closed", hint="make a new one with connection.cursor()"
            )
        self._database.check_open()

    def _start(self, sql: str) -> None:
        self._check_open()
        if not isinstance(sql, str):
            raise InterfaceError(f"a statement is given as {type(sql).__name__}, not as str")
        if self._is_used:
            raise in_use_error()
        self._is_used = True
        try:
            self._discard()
        except BaseException:
            self._is_used = False
            raise
        self._rowcount = -1
        self._is_cancelled = False
        self._query = None
        self._sql = sql

    def _watch(self, running: StartedStatement) -> None:
        if isinstance(running, Deadline):
            self._deadline = running
        elif self._result is None:
            self._starting = running
        if self._is_cancelled:
            running.cancel()

    def _discard(self) -> None:
        result, self._result, self._written = self._result, None, None
        if result is not None:
            result.discard()

    def _rows(self) -> Result:
        if self._result is None:
            self._begin()
        result = self._written if self._result is None else self._result
        if result is None or self._database.is_closed:
            self._check_open()
            raise InterfaceError("there are no rows to fetch", hint=self._no_rows_hint())
        return result

    def _rows_with_end(self, action: str) -> Result:
        self._begin_again()
        result = self._rows()
        if result.is_unbounded and not result.can_end:
            error = NotSupportedError(
                f"{action} of a query that never ends",
                hint=(
                    "fetch rows with fetchone, fetchmany, iteration or fetch_record_batch, "
                    "or add a LIMIT"
                ),
            )
            raise presentable(error, self._sql)
        return result

    def _count(self, size: int | None, action: str) -> int:
        """The number of rows to fetch."""
        count = self.arraysize if size is None else size
        if not isinstance(count, int) or count < 0:
            raise InterfaceError(f"{action} needs a number of rows, not {count!r}")
        return count

    def _table(self, action: str, timeout: float | None) -> pa.Table:
        limit = wait_limit(timeout)
        with self._using(self._rows_with_end(action)) as result:
            if limit is not None:
                result.receive(limit)
            return result.table()

    def _gather(self, count: int) -> None:
        """Waits until `count` rows, or all, have arrived, unless the result is unbounded."""
        if self._result is not None:
            with self._using(self._rows()) as result:
                result.gather(count)

    @contextmanager
    def _using(
        self, result: Result, failures: type[BaseException] = BaseException
    ) -> Iterator[Result]:
        """Marks the cursor as in use, and converts errors for the user. Only `failures` end the
        query: cancelling a task during a fetch does not."""
        if self._is_used:
            raise in_use_error()
        self._is_used = True
        try:
            yield result
        except failures as error:
            self._fail(error)
        finally:
            self._is_used = False

    def _fail(self, error: BaseException) -> NoReturn:
        """Raises the error as the user is to see it, and ends the query, unless only the time of a
        fetch has passed."""
        if self._result is None:
            self._rowcount = FAILED
        elif not isinstance(error, FetchTimeoutError):
            self._result.cancel()
            self._forget_last()
        if self._starting is not None and not isinstance(error, Exception):
            # Ctrl-C between the start of the job and the wait for it.
            self._starting.cancel()
            self._starting.wait()
        fail(error, self._sql)
