"""The owner of a connection's DuckDB: an in-memory database that runs fragments and spilling
operators, and to which database files are attached.

DuckDB is imported and opened when the first cursor is requested. A DuckDB connection that outlives
the interpreter's threads can abort the interpreter. The database is therefore closed with the
kernel, when the kernel is collected, and before the interpreter exits.
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
"""Options of DuckDB: NULL is the smallest value, a division of floats by zero is an error, and the
name of a table is never resolved to a Python variable."""


_TEMPORARY = "temporary"
_MEMORY = ":memory:"
"""The key of the database of temporary tables; the keys of files are absolute paths."""


class Running(Protocol):
    """Work on a cursor in a separate thread."""

    def close(self) -> None:
        """Asks the work to end early, if it can; does not wait."""

    def join(self) -> None:
        """Waits until the thread has ended."""


class DuckDBKernel:
    """The DuckDB database of one connection.

    Its methods may be called from any thread. A cursor is for one thread at a time, except that
    any thread may call `interrupt`.

    threads: number of DuckDB's threads.
    memory_limit: in bytes; None: DuckDB's default, 80 % of the memory of the machine.
    temp_directory: where DuckDB spills, in a private folder that is removed with the kernel; None:
        the system's directory for temporary files.
    tables: the database file of the connection's own tables; None: they are in memory.
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
        """Changes the limit and the directory. The directory only has an effect before the first
        cursor."""
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
        """A new cursor, which the caller closes. Tables registered in it are visible to it
        alone."""
        with self._lock:
            opened = self._opened()
            cursor = opened.connection.cursor()
            opened.cursors.add(cursor)
            return cursor

    def watch(self, work: Running) -> None:
        """Registers work that has to end before the database is closed."""
        with self._lock:
            self._opened().running.add(work)

    def attach(self, path: str | Path | None, *, read_only: bool = False) -> str:
        """Attaches a database file unless it is attached, and returns its name in SQL, quoted.

        path: the file, or :memory: with a name; None: the database of the connection's own tables.
        OperationalError if another process has the file open.
        """
        key = "" if path is None else _key(path)
        if self._tables is not None and key == str(Path(self._tables).resolve()):
            key, path = "", None
        with self._lock:
            known = self._attached.get(key)
            if known is not None:
                return known
            alias = f'"runnel_{next(self._aliases)}"'
            file = self._tables if path is None else key
            options = " (TYPE duckdb, READ_ONLY)" if read_only else " (TYPE duckdb)"
            if file is None or key.startswith(_MEMORY):
                file, options = _MEMORY, ""
            try:
                self._opened().connection.execute(f"ATTACH {quoted(str(file))} AS {alias}{options}")
            except Exception as error:
                raise translated(error) from error
            self._attached[key] = alias
            return alias

    def attach_temporary(self) -> str:
        """The name in SQL, quoted, of a database in memory for temporary tables."""
        with self._lock:
            known = self._attached.get(_TEMPORARY)
            if known is None:
                known = f'"runnel_{next(self._aliases)}"'
                self._opened().connection.execute(f"ATTACH '{_MEMORY}' AS {known}")
                self._attached[_TEMPORARY] = known
            return known

    def detach(self, path: str | Path) -> None:
        """Detaches a database; no query may be reading it."""
        key = _key(path)
        with self._lock:
            alias = self._attached.pop(key, None)
            if alias is not None and self._open is not None:
                self._open.connection.execute(f"DETACH {alias}")

    @property
    def attached(self) -> tuple[str, ...]:
        """The names of the attached databases, quoted."""
        with self._lock:
            return tuple(self._attached.values())

    def close(self) -> None:
        """Interrupts running queries, and closes all cursors and the database. A second call does
        nothing; afterwards `cursor` raises."""
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


def _key(path: str | Path) -> str:
    """The key of a database among the attached ones."""
    text = str(path)
    return text if text.startswith(_MEMORY) else str(Path(path).resolve())


class _Open:
    """The open database, without a reference to the kernel, so that it can be closed when the
    kernel is collected."""

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
        """Abandons the database in a forked process. To close it would write the parent's files,
        and wait for threads that do not exist in the child."""
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
    """A text as a string literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"
