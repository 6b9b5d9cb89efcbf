"""The one owner of a connection's DuckDB: an in-memory database that fragments and spilling
operators run in, and to which database files are attached.

Nothing is imported or opened before the first cursor is asked for. A DuckDB connection that
outlives the interpreter's threads can abort it, so everything is closed with the kernel, when it is
collected, and before the interpreter exits.
"""

from __future__ import annotations

import weakref
from itertools import count
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from runnel.base.forks import closed_error, here, pin, watch
from runnel.duckdb.errors import translated
from runnel.storage.spill import PrivateFolder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_OPTIONS: dict[str, Any] = {
    "allow_unsigned_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "default_null_order": "nulls_first_on_asc_last_on_desc",
    "ieee_floating_point_ops": False,
    "python_enable_replacements": False,
}
"""NULL is the smallest value, a division of floats by zero is an error, and no name means a Python
variable."""


class Running(Protocol):
    """What works on a cursor in a thread of its own."""

    def close(self) -> None:
        """Ends it soon, if it can end early."""

    def join(self) -> None:
        """Waits until nothing of it is left."""


class DuckDBKernel:
    """The DuckDB database of one connection. Safe for threads; a cursor is for one thread at a
    time, but for `interrupt`.

    `memory_limit` is in bytes (None: DuckDB's own, four fifths of the machine's). What doesn't fit
    is written to a private folder in `temp_directory` (None: that of the system), which is removed
    with the kernel. `tables` is the database file of the connection's own tables; None keeps them
    in memory.
    """

    def __init__(
        self,
        threads: int,
        memory_limit: int | None = None,
        temp_directory: str | Path | None = None,
        tables: str | Path | None = None,
    ) -> None:
        self.threads = threads
        self.memory_limit = memory_limit
        self._temp_directory = temp_directory
        self._tables = tables
        self._lock = RLock()
        self._open: _Open | None = None
        self._closed = False
        self._attached: dict[str, str] = {}
        self._aliases = count()
        self._origin = here()

    def configure(self, memory_limit: int | None, temp_directory: str | Path | None) -> None:
        """Changes what was given at the start; the folder only before the first cursor."""
        with self._lock:
            self.memory_limit, self._temp_directory = memory_limit, temp_directory
            if self._open is not None:
                changed = "RESET GLOBAL memory_limit"
                if memory_limit is not None:
                    changed = f"SET GLOBAL memory_limit = '{memory_limit}B'"
                try:
                    self._open.connection.execute(changed)
                except Exception as error:
                    raise translated(error) from error

    @property
    def is_open(self) -> bool:
        """Whether DuckDB has been started."""
        return self._open is not None

    def cursor(self) -> DuckDBPyConnection:
        """A connection of its own to the database, to be closed by whoever asked for it. What is
        registered in it is seen by no other."""
        with self._lock:
            opened = self._opened()
            cursor = opened.connection.cursor()
            opened.cursors.add(cursor)
            return cursor

    def watch(self, work: Running) -> None:
        """Has what runs in a thread closed before the database is."""
        with self._lock:
            self._opened().running.add(work)

    def attach(self, path: str | Path | None, *, read_only: bool = False) -> str:
        """Attaches a database file, once, and gives the name under which SQL finds it, in quotes.
        None is the database of the connection's own tables. A file that another process has open is
        an OperationalError."""
        key = "" if path is None else str(Path(path).resolve())
        with self._lock:
            known = self._attached.get(key)
            if known is not None:
                return known
            alias = f'"runnel_{next(self._aliases)}"'
            file = self._tables if path is None else key
            options = " (TYPE duckdb, READ_ONLY)" if read_only else " (TYPE duckdb)"
            if file is None:
                file, options = ":memory:", ""
            try:
                self._opened().connection.execute(f"ATTACH {quoted(str(file))} AS {alias}{options}")
            except Exception as error:
                raise translated(error) from error
            self._attached[key] = alias
            return alias

    def detach(self, path: str | Path) -> None:
        """Lets an attached file go; nothing may be reading it."""
        key = str(Path(path).resolve())
        with self._lock:
            alias = self._attached.pop(key, None)
            if alias is not None and self._open is not None:
                self._open.connection.execute(f"DETACH {alias}")

    @property
    def attached(self) -> tuple[str, ...]:
        """The names of the attached databases, in quotes."""
        with self._lock:
            return tuple(self._attached.values())

    def close(self) -> None:
        """Interrupts what runs, closes all cursors and the database. Once is enough; no cursor is
        given afterwards."""
        with self._lock:
            self._closed = True
            opened, self._open = self._open, None
        if opened is not None:
            opened.finalizer()

    def _opened(self) -> _Open:
        if self._closed:
            raise closed_error(self._origin)
        if self._open is None:
            self._open = _Open(self)
        return self._open

    def _connect(self, folder: str) -> DuckDBPyConnection:
        import duckdb

        options = {**_OPTIONS, "threads": self.threads, "temp_directory": folder}
        if self.memory_limit is not None:
            options["memory_limit"] = f"{self.memory_limit}B"
        connection = duckdb.connect(":memory:", config=options)
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        return connection


class _Open:
    """What is open, apart from the kernel, so that it can be closed when the kernel is
    collected."""

    def __init__(self, kernel: DuckDBKernel) -> None:
        base = kernel._temp_directory
        try:
            if base is not None:
                Path(base).mkdir(parents=True, exist_ok=True)
            folder = PrivateFolder(None if base is None else str(base))
            self.connection = kernel._connect(folder.path)
        except Exception as error:
            raise translated(error) from error
        self.cursors: weakref.WeakSet[DuckDBPyConnection] = weakref.WeakSet()
        self.running: weakref.WeakSet[Running] = weakref.WeakSet()
        self.finalizer = weakref.finalize(
            kernel, _close, self.connection, self.cursors, self.running, folder
        )
        watch(self)

    def leave(self) -> None:
        """In a forked child nothing of DuckDB is closed: it would write the parent's files, and
        wait for threads that aren't there."""
        self.finalizer.detach()
        for item in (*self.cursors, *self.running):
            pin(item)


def _close(
    connection: DuckDBPyConnection,
    cursors: weakref.WeakSet[DuckDBPyConnection],
    running: weakref.WeakSet[Running],
    folder: PrivateFolder,
) -> None:
    for work in list(running):
        work.close()
        work.join()
    for cursor in list(cursors):
        try:
            cursor.interrupt()
            cursor.close()
        except (
            Exception
        ):  # closed meanwhile by its owner, or still in a call that was interrupted just now
            pass
    connection.close()
    folder.close()


def quoted(text: str) -> str:
    """A text as a literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"
