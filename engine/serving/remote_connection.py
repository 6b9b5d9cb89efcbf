"""A connection to a server: the same cursor, with the statements run elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from runnel.connection import Connection
from runnel.cursor import Cursor, fail
from runnel.errors import InterfaceError, NotSupportedError
from runnel.jobs import Job
from runnel.serving.remote import RemoteDatabase, location_of

if TYPE_CHECKING:
    from datetime import timedelta

    from runnel.connector import Connector
    from runnel.connectors.stream import StreamWriter
    from runnel.dag import DAG

TOKEN = "RUNNEL_TOKEN"
"""The environment variable that holds the token where none is given."""

_JOBS = "SHOW JOBS lists the server's jobs, and ALTER JOB and DROP JOB change them"


def connect_remote(url: str, settings: dict[str, Any]) -> RemoteConnection:
    """Connects to a server. `settings` may hold `token` and, for `runnel+tls://`, `root_certificate`: a path to PEM, where the
    server's certificate isn't from an authority that the system trusts."""
    try:
        location_of(url)
    except BaseException as error:
        fail(error, None)
    token = settings.pop("token", None) or os.environ.get(TOKEN)
    certificate = settings.pop("root_certificate", None)
    if settings:
        raise InterfaceError(
            f'"{next(iter(settings))}" is for connections of this process',
            hint="a connection to a server takes token and root_certificate; settings are the server's",
        )
    if not isinstance(token, str) or not token:
        raise InterfaceError(
            "a connection to a server needs its token", hint=f"give connect(token=…), or the environment variable {TOKEN}"
        )
    if not token.isascii() or not token.isprintable():
        raise InterfaceError("a token consists of printable ASCII characters")
    try:
        root = None if certificate is None else _certificate(certificate)
        return RemoteConnection(RemoteDatabase(url, token, root))
    except BaseException as error:
        fail(error, None)


class RemoteConnection(Connection):
    """A connection to a server, made by `connect("runnel://host:port")`. Cursors work as ever. What would need this process's
    memory or code over there (Python functions, DAGs, connectors, pushed streams) is refused; registered data is copied to the
    server, where all its clients see it."""

    __module__ = "runnel"

    def __init__(self, database: RemoteDatabase) -> None:
        super().__init__(database)  # type: ignore[arg-type]
        self._remote = database

    def cursor(self) -> Cursor:
        self._remote.check_open()
        return Cursor(self, self._remote)

    def register(self, name: str, data: Any) -> None:
        """Copies data to the server under that name: whatever Arrow reads (`__arrow_c_stream__`), a pandas frame included."""
        self._remote.check_open()
        if not isinstance(name, str):
            raise InterfaceError(f"the name of a registration is a str, not a value of class {type(name).__name__}")
        try:
            self._remote.register(name, _as_table(data))
        except BaseException as error:
            fail(error, None)

    def unregister(self, name: str) -> None:
        """Takes a registration back from the server."""
        try:
            self._remote.ask("unregister", {"name": name})
        except BaseException as error:
            fail(error, None)

    def add_connector(self, connector: Connector) -> None:
        """NotSupportedError: connectors are the server's."""
        _refuse("a connector")

    def register_stream(
        self,
        name: str,
        schema: Any,
        *,
        time_column: str | None = None,
        max_disorder: timedelta | int | None = None,
        idle_timeout: timedelta | None = None,
    ) -> StreamWriter:
        """NotSupportedError: a pushed stream is written in the process that reads it."""
        _refuse("a pushed stream")

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any],
        return_type: Any,
        *,
        scalar: bool = False,
        nulls: str = "pass",
        deterministic: bool = True,
        replace: bool = False,
    ) -> None:
        """NotSupportedError: no code is sent to a server."""
        _refuse("a Python function")

    def create_aggregate(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any],
        return_type: Any,
        *,
        scalar: bool = False,
        nulls: str = "pass",
        replace: bool = False,
    ) -> None:
        """NotSupportedError, as `create_function`."""
        _refuse("a Python function")

    def drop_function(self, name: str) -> None:
        """NotSupportedError, as `create_function`."""
        _refuse("a Python function")

    def submit(self, dag: DAG, *, name: str = "") -> Job:
        """NotSupportedError: no code is sent to a server."""
        _refuse("a hand-built DAG")

    def jobs(self) -> NoReturn:
        """NotSupportedError: SHOW JOBS lists the server's."""
        _refuse("the handle of a job", _JOBS)

    def job(self, job: str | int) -> NoReturn:
        """NotSupportedError: SHOW JOBS lists the server's."""
        _refuse("the handle of a job", _JOBS)

    def __repr__(self) -> str:
        return f"<runnel.Connection to {self._remote.url!r}{', closed' if self.is_closed else ''}>"


def _refuse(what: str, hint: str = "do it in the server's process, or work on a connection of this one") -> NoReturn:
    raise NotSupportedError(f"{what} can't be had over a connection to a server", hint=hint)


def _certificate(path: Any) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InterfaceError(
            f"root_certificate {path!r} can't be read", detail=reason, hint="give the path of a PEM file"
        ) from error


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InterfaceError(
        f"a value of class {type(data).__name__} can't be registered", hint="give an Arrow table or a data frame"
    )
