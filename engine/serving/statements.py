"""The statements that clients of a server have begun, by the names that the clients chose."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic

from runnel.deadline import Deadline
from runnel.errors import ErrorCode, OperationalError, ProgrammingError
from runnel.results.rows import Result
from runnel.runtime.light_job import Job
from runnel.serving.sockets import End, client_end

UNREAD = 60.0
"""Seconds after which rows that no client has begun to read are discarded: the client has probably
disconnected."""
LOST = 5.0
"""Seconds after which they are discarded if the connection over which the statement came has ended:
a live client would have requested them over another one by then."""


class OpenStatement:
    """One statement of one client, from its beginning until its rows are read or discarded.
    `cancel` may be called from any thread, also before the job exists.

    result: its rows, if it has any.
    has_rows_since: time of `time.monotonic` since which the rows are available.
    peer: gRPC's name for the client's end of the connection.
    is_read: a client has begun to read the rows.
    """

    def __init__(self) -> None:
        self.result: Result | None = None
        self.has_rows_since = 0.0
        self.peer = ""
        self.is_read = False
        self._job: Job | None = None
        self._deadline: Deadline | None = None
        self._is_cancelled = False

    def watch(self, running: Job | Deadline) -> None:
        """A job was started for the statement, or the statement begins to wait."""
        if isinstance(running, Deadline):
            self._deadline = running
        else:
            self._job = running
        if self._is_cancelled:
            running.cancel()

    def give(self, result: Result, peer: str) -> None:
        """Stores the rows for the client. `peer`: gRPC's name for its end of the connection."""
        self.peer = peer
        self.has_rows_since = monotonic()
        self.result = result

    def cancel(self) -> None:
        """Cancels the statement."""
        self._is_cancelled = True
        for running in (self._deadline, self.result or self._job):
            if running is not None:
                running.cancel()


class OpenStatements:
    """All statements of one server. Thread-safe. `connected` lists the clients' ends with a
    connection (None: unknown)."""

    def __init__(self, connected: Callable[[], set[End] | None]) -> None:
        self._connected = connected
        self._lock = Lock()
        self._open: dict[str, OpenStatement] = {}
        self._is_closed = False

    def begin(self, name: str) -> OpenStatement:
        """Adds a statement with that name; OperationalError after `cancel_all`."""
        self._give_up_unread()
        statement = OpenStatement()
        with self._lock:
            if self._is_closed:
                raise OperationalError(
                    "the server is ending",
                    code=ErrorCode.CONNECTION_PROBLEM,
                    hint="try again later",
                )
            if name in self._open:
                raise ProgrammingError(f'a statement with the name "{name}" has begun already')
            self._open[name] = statement
        return statement

    def take_rows(self, name: str) -> Result:
        """The rows of a statement, which can be read once."""
        with self._lock:
            statement = self._open.get(name)
            if statement is None or statement.result is None or statement.is_read:
                raise OperationalError(
                    "the rows of the statement are gone",
                    code=ErrorCode.CANCELLED,
                    detail=f"rows that no client has begun to read are dropped after {UNREAD:g} s",
                    hint="run it again",
                )
            statement.is_read = True
        return statement.result

    def cancel(self, name: str) -> None:
        """Cancels a statement; does nothing if there is none with that name."""
        with self._lock:
            statement = self._open.get(name)
        if statement is not None:
            statement.cancel()

    def end(self, name: str) -> None:
        """Removes a statement and frees its resources."""
        with self._lock:
            statement = self._open.pop(name, None)
        if statement is not None and statement.result is not None:
            statement.result.discard()

    def cancel_all(self) -> None:
        """Cancels all statements, and refuses new ones."""
        with self._lock:
            self._is_closed = True
            running = list(self._open.values())
        for statement in running:
            statement.cancel()

    def look(self) -> bool:
        """Discards rows that no client has begun to read; False if no statement is open."""
        self._give_up_unread()
        self._give_up_lost()
        return bool(self._open)

    def _give_up_unread(self) -> None:
        for name, _ in self._unread(UNREAD):
            self.end(name)

    def _give_up_lost(self) -> None:
        unread = self._unread(LOST)
        connected = self._connected() if unread else None
        if connected is not None:
            for name, statement in unread:
                end = client_end(statement.peer)
                if end is not None and end not in connected:
                    self.end(name)

    def _unread(self, seconds: float) -> list[tuple[str, OpenStatement]]:
        """The statements whose rows have been available for longer than `seconds`, and are not
        being read."""
        before = monotonic() - seconds
        with self._lock:
            waiting = [
                (name, item)
                for name, item in self._open.items()
                if item.result is not None and not item.is_read
            ]
        return [(name, item) for name, item in waiting if item.has_rows_since < before]

    def __len__(self) -> int:
        return len(self._open)
