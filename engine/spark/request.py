"""The checked options of a reader or writer of the data source "runnel"."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from runnel.base.frozen import frozen
from runnel.errors import Error, ProgrammingError, suggest
from runnel.serving.remote_connection import connect_remote

NAME = "runnel"
OPTIONS = (
    *("url", "token", "rootCertificate", "query", "parameters", "table", "path", "statement"),
    *("partitionColumn", "numPartitions", "offsetColumn", "startingOffset", "maxOffsetsPerTrigger"),
)
_P = ParamSpec("_P")
_R = TypeVar("_R")
SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})
"""Options of Spark itself that Spark also passes to data sources, in lower case."""


@frozen
class ServerAddress:
    """The address of the Runnel server that Spark's processes connect to.

    url: `runnel://host:port`.
    token: the secret that the server checks.
    root_certificate: path of a PEM file that the server's certificate is checked against.
    """

    url: str
    token: str
    root_certificate: str | None = None

    def __repr__(self) -> str:
        return f"<server {self.url}>"  # without its token

    def connect(self) -> Any:
        """A new connection to the server."""
        certificate = (
            {} if self.root_certificate is None else {"root_certificate": self.root_certificate}
        )
        return connect_remote(self.url, {"token": self.token, **certificate})


@frozen
class ReadRequest:
    """The checked options of a reader or writer.

    server: the server to connect to.
    query: the SELECT to read, or None.
    table: the table to read or write, or None. At most one of query and table is set.
    options: all options, by their names in lower case.
    """

    server: ServerAddress
    query: str | None
    table: str | None
    options: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """The value of an option, or None; `name` in any case."""
        return self.options.get(name.lower())

    def number(self, name: str, least: int, default: int | None = None) -> int | None:
        """The value of an option that is an integer of at least `least`."""
        text = self.text(name)
        if text is None:
            return default
        if re.fullmatch(r"-?[0-9]{1,19}", text.strip()) is None or int(text) < least:
            raise ProgrammingError(
                f'option "{name}" of data source {NAME} is a whole number of at least {least}, '
                f"not {text!r}"
            )
        return int(text)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the query: a JSON list in the option `parameters`."""
        text = self.text("parameters")
        if text is None:
            return ()
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
            raise ProgrammingError(
                f'option "parameters" of data source {NAME} is a list of values in JSON, '
                f"not {text!r}",
                hint='.option("parameters", json.dumps([3, "Oslo", None]))',
            )
        if self.query is None:
            raise ProgrammingError(
                'option "parameters" is for a query', hint='add .option("query", "SELECT …")'
            )
        return tuple(values)

    @property
    def rows(self) -> str:
        """The FROM item to read."""
        if self.query is not None:
            return f"({self.query}) AS q"
        if self.table is not None:
            return f"{quoted(self.table)} AS q"
        raise ProgrammingError(
            f"data source {NAME} reads a query or a table", hint='add .option("query", "SELECT …")'
        )

    def target(self) -> str:
        """The name of the table to write."""
        if self.table is None:
            raise ProgrammingError(
                f"data source {NAME} writes to a table", hint='add .option("table", "name")'
            )
        return self.table


def plainly(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Removes the traceback from Runnel's errors, because Spark prints tracebacks to the user."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except Error as error:
            raise error.with_traceback(None) from None

    return call


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def request_of(written: Mapping[str, str], defaults: Mapping[str, str]) -> ReadRequest:
    """The request of the options that the user wrote, over `defaults` of `register`;
    ProgrammingError if an option is unknown, missing or invalid."""
    known = {name.lower() for name in OPTIONS}
    options = {name.lower(): value for name, value in {**defaults, **written}.items()}
    for name in options:
        if name == "directory":
            raise ProgrammingError(
                f"data source {NAME} reads no directory: its owner is one process, "
                "and executors are others",
                hint=(
                    "serve it (runnel serve DIR), or open it here and "
                    "runnel.spark.register(session, connection)"
                ),
            )
        if name not in known and name not in SPARKS_OWN:
            raise ProgrammingError(
                f'unknown option "{name}" of data source {NAME}', hint=suggest(name, list(OPTIONS))
            )
    url, token = options.get("url"), options.get("token") or os.environ.get("RUNNEL_TOKEN")
    if url is None or token is None:
        raise ProgrammingError(
            f"data source {NAME} needs the address of a server and its token",
            hint=(
                '.option("url", "runnel://…").option("token", …), or '
                "runnel.spark.register(session, connection)"
            ),
        )
    server = ServerAddress(url, token, options.get("rootcertificate"))
    query, table = options.get("query"), options.get("table") or options.get("path")
    if query is not None and table is not None:
        raise ProgrammingError(f"data source {NAME} needs a query or a table, not both")
    return ReadRequest(server, query, table, options)
