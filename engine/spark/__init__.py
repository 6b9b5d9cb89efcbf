"""Runnel's tables inside Spark: the data source "runnel", for reading and writing.

    runnel.spark.register(session, connection)
    session.read.format("runnel").option("query", "SELECT * FROM clicks").load()

Executors are other processes, so they reach a connection through a server: one that
`runnel serve` runs, or one that `register` starts on loopback in front of this process.

Imports the engine's basics, `engine/connection.py` and, on first use, `engine/serving`. Begin
with `register` here, then `source`, the data source that Spark calls.
"""

from __future__ import annotations

import atexit
import secrets
from typing import Any

from runnel.base.forks import here
from runnel.connection import Connection
from runnel.errors import InterfaceError, OperationalError

__all__ = ["SparkRegistration", "register"]


class SparkRegistration:
    """A registration of the data source, which `register` returns.

    url: the address of the server; None if the options of each read or write name it.
    """

    def __init__(self, url: str | None, server: Any = None) -> None:
        self.url = url
        self._server = server
        self._origin = here()
        if server is not None:
            atexit.register(self.close)

    def close(self) -> None:
        """Stops the server that `register` started; a second call does nothing."""
        if self._origin.is_left:
            return  # in a forked process: the server belongs to the parent
        server, self._server = self._server, None
        if server is not None:
            atexit.unregister(self.close)
            server.stop()

    def __enter__(self) -> SparkRegistration:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<runnel data source of {self.url or 'the server that options name'}>"


def register(
    session: Any,
    connection: Connection | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
) -> SparkRegistration:
    """Registers the data source "runnel" in a SparkSession.

    session: the SparkSession.
    connection: a connection of this process. A server on loopback makes it available to Spark's
        processes on this computer.
    url, token: the address and token of a running server, in place of a connection.

    Without a connection and an address, the options of each read or write must name the server.
    """
    try:
        from runnel.spark.source import RunnelDataSource
    except ImportError as error:
        raise OperationalError(
            "the data source needs the package pyspark",
            detail=str(error),
            hint="pip install 'runnel[spark]'",
        ) from error
    if not hasattr(session, "dataSource"):
        raise InterfaceError(f"register needs a SparkSession, not {type(session).__name__}")
    server = None
    if connection is not None:
        if url is not None or token is not None:
            raise InterfaceError("register needs a connection, or the url and token of a server")
        if not isinstance(connection, Connection):
            raise InterfaceError(
                f"register needs a connection of this process, not {type(connection).__name__}",
                hint="pass the url and token of the server that the connection is to",
            )
        from runnel.serving.server import Server

        token = secrets.token_urlsafe(32)
        server = Server(connection, token)
        url = server.url
    options = {name: value for name, value in (("url", url), ("token", token)) if value is not None}

    class Registered(RunnelDataSource):
        """The data source, sent to Spark's processes by value with the server's address."""

        defaults = options

    try:
        session.dataSource.register(Registered)
    except BaseException:
        if server is not None:
            server.stop()
        raise
    return SparkRegistration(url, server)
