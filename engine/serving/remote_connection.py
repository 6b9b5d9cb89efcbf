"""A connection to a server: the same cursor, whose statements run on the server."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn
from weakref import WeakSet

import pyarrow as pa

from runnel.connection import Connection, close_when_forgotten
from runnel.errors import InterfaceError, NotSupportedError, fail, short_errors
from runnel.results.calls import LastResult
from runnel.serving.remote import RemoteDatabase, location_of

TOKEN = "RUNNEL_TOKEN"
"""The environment variable with the token if none is passed."""

_JOBS = "SHOW JOBS lists the server's jobs, and ALTER JOB and DROP JOB change them"


def connect_remote(url: str, settings: dict[str, Any]) -> RemoteConnection:
    """Connects to a server. `settings` may contain `token` and, for `runnel+tls://`,
    `root_certificate`: a path to a PEM file, for a server certificate from an authority that the
    system does not trust."""
    try:
        location_of(url)
    except BaseException as error:
        fail(error, None)
    token = settings.pop("token", None) or os.environ.get(TOKEN)
    certificate = settings.pop("root_certificate", None)
    if settings:
        raise InterfaceError(
            f'"{next(iter(settings))}" is for connections of this process',
            hint=(
                "a connection to a server takes token and root_certificate; "
                "settings are the server's"
            ),
        )
    if not isinstance(token, str) or not token:
        raise InterfaceError(
            "a connection to a server needs its token",
            hint=f"give connect(token=…), or the environment variable {TOKEN}",
        )
    if not token.isascii() or not token.isprintable():
        raise InterfaceError("a token consists of printable ASCII characters")
    try:
        root = None if certificate is None else _certificate(certificate)
        return RemoteConnection(RemoteDatabase(url, token, root))
    except BaseException as error:
        fail(error, None)


class RemoteConnection(Connection):
    """A connection to a server, made by `connect("runnel://host:port")`. Cursors work as usual.
    Methods that would need this process's memory or code on the server (Python functions, DAGs,
    connectors, pushed streams) are refused; registered data is copied to the server, where it is
    visible to all its clients."""

    __module__ = "runnel"

    def __init__(self, database: RemoteDatabase) -> None:
        self._database = database  # type: ignore[assignment]
        self._remote = database
        self._engine = database
        self._last = LastResult()
        self._cursors = WeakSet()
        self._cursors_lock = Lock()
        close_when_forgotten(self, database)

    @short_errors
    def commit(self) -> None:
        """Does nothing: each statement of a client is a transaction by itself."""
        self._remote.check_open()

    @short_errors
    def rollback(self) -> None:
        """Does nothing: the server refuses BEGIN."""
        self._remote.check_open()

    @short_errors
    def register(self, name: str, data: Any) -> Connection:
        """Copies data to the server under that name: any data that Arrow reads
        (`__arrow_c_stream__`), including a pandas frame."""
        self._remote.check_open()
        if not isinstance(name, str):
            raise InterfaceError(
                f"the name of a registration is a str, not a value of class {type(name).__name__}"
            )
        try:
            self._remote.register(name, _as_table(data))
        except BaseException as error:
            fail(error, None)
        return self

    @short_errors
    def unregister(self, name: str) -> None:
        """Removes a registration from the server."""
        try:
            self._remote.ask("unregister", {"name": name})
        except BaseException as error:
            fail(error, None)

    @short_errors
    def add_connector(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotSupportedError: connectors are the server's."""
        _refuse("a connector")

    @short_errors
    def register_stream(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotSupportedError: a pushed stream is written in the process that reads it."""
        _refuse("a pushed stream")

    @short_errors
    def create_function(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotSupportedError: no code is sent to a server."""
        _refuse("a Python function")

    create_aggregate = drop_function = create_function

    @short_errors
    def submit(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotSupportedError: no code is sent to a server."""
        _refuse("a hand-built DAG")

    @short_errors
    def settle(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotSupportedError: a test settles the connection of its own process."""
        _refuse("waiting for the end of all work")

    @short_errors
    def jobs(self) -> NoReturn:
        """NotSupportedError: SHOW JOBS lists the server's."""
        _refuse("the handle of a job", _JOBS)

    @short_errors
    def job(self, job: str | int) -> NoReturn:
        """NotSupportedError: SHOW JOBS lists the server's."""
        _refuse("the handle of a job", _JOBS)

    def __repr__(self) -> str:
        return f"<runnel.Connection to {self._remote.url!r}{', closed' if self.is_closed else ''}>"


def _refuse(
    what: str, hint: str = "do it in the server's process, or work on a connection of this one"
) -> NoReturn:
    raise NotSupportedError(f"{what} can't be had over a connection to a server", hint=hint)


def _certificate(path: Any) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InterfaceError(
            f"root_certificate {path!r} can't be read",
            detail=reason,
            hint="give the path of a PEM file",
        ) from error


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InterfaceError(
        f"a value of class {type(data).__name__} can't be registered",
        hint="give an Arrow table or a data frame",
    )
