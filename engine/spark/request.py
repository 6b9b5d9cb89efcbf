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
"""Options that Spark hands on, though they are meant for it."""


@frozen
class ServerAddress:
    """Where Spark's processes find the rows."""

    url: str
    token: str
    root_certificate: str | None = None

    def __repr__(self) -> str:
        return f"<server {self.url}>"  # without its token

    def connect(self) -> Any:
        """A connection of its own, for the process that asks."""
        more = {} if self.root_certificate is None else {"root_certificate": self.root_certificate}
        return connect_remote(self.url, {"token": self.token, **more})


@frozen
class ReadRequest:
    """The options of a reader or writer, checked. `query`: what is read, as a whole SELECT;
    `table`: what is written to."""

    server: ServerAddress
    query: str | None
    table: str | None
    options: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """An option whose name is written in any case."""
        return self.options.get(name.lower())

    def number(self, name: str, least: int, default: int | None = None) -> int | None:
        given = self.text(name)
        if given is None:
            return default
        if re.fullmatch(r"-?[0-9]{1,19}", given.strip()) is None or int(given) < least:
            raise ProgrammingError(
                f'option "{name}" of data source {NAME} takes a whole number of at least {least}, '
                f"not {given!r}"
            )
        return int(given)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The values for the query's parameters."""
        given = self.text("parameters")
        if given is None:
            return ()
        try:
            values = json.loads(given)
        except ValueError:
            values = None
        if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
            raise ProgrammingError(
                f'option "parameters" of data source {NAME} takes a list of values in JSON, '
                f"not {given!r}",
                hint='.option("parameters", json.dumps([3, "Oslo", None]))',
            )
        if self.query is None:
            raise ProgrammingError(
                'option "parameters" is for a query', hint='add .option("query", "SELECT …")'
            )
        return tuple(values)

    @property
    def rows(self) -> str:
        """The FROM item that is read."""
        if self.query is not None:
            return f"({self.query}) AS q"
        if self.table is not None:
            return f"{quoted(self.table)} AS q"
        raise ProgrammingError(
            f"data source {NAME} reads a query or a table", hint='add .option("query", "SELECT …")'
        )

    def target(self) -> str:
        """The name of the table that is written to."""
        if self.table is None:
            raise ProgrammingError(
                f"data source {NAME} writes to a table", hint='add .option("table", "name")'
            )
        return self.table


def plainly(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raises our errors without telling where they come from, all of which Spark would show to who
    reads them."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except Error as error:
            raise error.with_traceback(None) from None

    return call


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def request_of(written: Mapping[str, str], defaults: Mapping[str, str]) -> ReadRequest:
    """Checks options; ProgrammingError names the one that is wrong or missing."""
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
        raise ProgrammingError(f"data source {NAME} takes a query or a table, not both")
    return ReadRequest(server, query, table, options)
