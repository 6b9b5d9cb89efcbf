"""Binding a text on DuckDB without running it, within the deadline of the statement.

DuckDB ignores `interrupt` while it parses and binds, and the time grows faster than the length of
the text. So another thread binds a long text, and the statement abandons that thread when it is
cancelled or times out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING

from runnel.deadline import LOOK, check_time

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.duckdb.kernel import DuckDBKernel

LONG = 20_000
"""The number of characters from which another thread binds the text; a shorter text needs some
milliseconds."""


def bind(kernel: DuckDBKernel, write: Callable[[DuckDBPyConnection], str]) -> None:
    """Raises the error of DuckDB, or the error that ends the statement in the meantime. `write`
    registers the inputs of the text in a cursor, and returns the text."""
    with ExitStack() as own:
        cursor = own.enter_context(kernel.cursor())
        text = write(cursor)
        if len(text) < LONG:
            cursor.sql(text)
            return
        binding = Binding(cursor, text)
        kernel.watch(binding)
        own.pop_all()  # its thread closes the cursor
    binding.start()
    while not binding.ended.wait(LOOK):
        check_time()
    if binding.error is not None:
        raise binding.error


class Binding:
    """A text that a thread binds. As with streams, the database is not closed before the thread has
    ended."""

    def __init__(self, cursor: DuckDBPyConnection, text: str) -> None:
        self._cursor = cursor
        self._text = text
        self._thread = Thread(target=self._run, name="runnel-duckdb-bind", daemon=True)
        self.ended = Event()
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Nothing ends it early."""

    def join(self) -> None:
        """Waits until nothing of it is left."""
        if self._thread.ident is not None and self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            with self._cursor as cursor:
                cursor.sql(self._text)
        except Exception as error:
            self.error = error
        finally:
            self.ended.set()
