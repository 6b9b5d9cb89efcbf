"""The client's side: a database on a server, to which statements are sent and from which rows are
read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock, Thread, current_thread, main_thread
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakSet

import pyarrow as pa
import pyarrow.flight as flight

from runnel.base.forks import closed_error, here, pin, watch
from runnel.deadline import time_limit
from runnel.errors import DatabaseError, ErrorCode, InterfaceError, OperationalError
from runnel.processors.sinks.result_queue import acquire
from runnel.relation.nodes import Field
from runnel.results.rows import Result
from runnel.serving.messages import (
    HEADER,
    PROTOCOL,
    WrongMessage,
    arguments_message,
    batches_buffer,
    batches_of,
    error_of,
    fields_of,
    packed,
    unpacked,
)
from runnel.serving.remote_rows import InlineRows, RemoteRows
from runnel.statements.arguments import (
    Arguments,
    argument_types,
    checked,
    checked_rows,
    column_type,
)
from runnel.statements.call import StartedStatement

_Answer = TypeVar("_Answer")
LATE = 10.0
"""Seconds after a statement's timeout within which the server must report its end."""
LEAVING = 5.0
"""Seconds that reading threads have to end when the connection is closed."""

_Answered = tuple[dict[str, Any], bytes]


class RemoteStatement:
    """A statement that the server runs, identified by a name that the client chose."""

    def __init__(self, database: RemoteDatabase) -> None:
        self.name = uuid4().hex
        self._database = database

    def cancel(self) -> None:
        """Requests the server to end it; does not wait, and does not fail."""
        Thread(target=self._ask, name="runnel-cancel", daemon=True).start()

    def _ask(self) -> None:
        with suppress(DatabaseError, InterfaceError):
            self._database.ask("cancel", {"statement": self.name})

    def wait(self, timeout: float | None = None) -> bool:
        """Returns at once: the call that sent the statement reports its end."""
        return True


class RemoteDatabase:
    """A database on a server, at an address like `runnel://127.0.0.1:4711`. Thread-safe."""

    def __init__(self, url: str, token: str, root_certificate: bytes | None = None) -> None:
        """Connects, and checks that the server has the same protocol version."""
        self.url = url
        self.is_closed = False
        self._lock = Lock()
        self._calls = 0
        self._reading: WeakSet[RemoteRows] = WeakSet()
        self.origin = here()
        watch(self)
        location = location_of(url)
        options = {} if root_certificate is None else {"tls_root_certs": root_certificate}
        self._headers = [(HEADER, f"Bearer {token}".encode())]
        self._options = flight.FlightCallOptions(headers=self._headers)
        try:
            self._client = flight.FlightClient(location, **options)
        except (pa.ArrowException, TypeError) as error:
            raise InterfaceError(f"{url!r} can't be connected to", detail=str(error)) from error
        try:
            answer, _ = self.ask("hello", {})
            if answer.get("protocol") != PROTOCOL:
                raise OperationalError(
                    f"the server at {url} speaks another protocol",
                    code=ErrorCode.CONNECTION_PROBLEM,
                    hint="server and client must be of the same version of Runnel",
                )
        except BaseException:
            self.close()
            raise

    def run(
        self,
        sql: str,
        args: Arguments,
        timeout: float | None,
        on_start: Callable[[StartedStatement], object],
    ) -> Result | int:
        """Has the server run one statement; returns its rows, or the number of rows it wrote."""
        names = tuple(args) if isinstance(args, Mapping) else None
        values = checked(tuple(args.values()) if isinstance(args, Mapping) else args)
        head, body = arguments_message([values], argument_types(values), names)
        statement = RemoteStatement(self)
        on_start(statement)
        limit = time_limit(timeout)
        answer, rows = self._wait_for(
            "execute", statement, head | {"sql": sql, "timeout": limit}, body
        )
        if "rowcount" in answer:
            return int(answer["rowcount"])
        fields = fields_of(answer["fields"])
        source = (
            InlineRows(fields, batches_of(rows))
            if "has_rows" in answer
            else self._rows(statement, fields, limit)
        )
        result = Result.of_job(
            fields, source, is_unbounded=answer["is_unbounded"], can_end=answer["can_end"]
        )
        result.zone = answer["time_zone"]
        return result

    def run_many(
        self,
        sql: str,
        seq_of_args: Iterable[Arguments],
        timeout: float | None,
        on_start: Callable[[StartedStatement], object],
    ) -> int:
        """Has the server run one statement for many argument lists."""
        rows, names = checked_rows(seq_of_args)
        if not rows:
            return 0
        types = [
            column_type(values, number) for number, values in enumerate(zip(*rows, strict=True), 1)
        ]
        head, body = arguments_message(rows, types, names)
        statement = RemoteStatement(self)
        on_start(statement)
        answer, _ = self._wait_for(
            "executemany", statement, head | {"sql": sql, "timeout": time_limit(timeout)}, body
        )
        return int(answer["rowcount"])

    def write(self, head: dict[str, Any]) -> int:
        """Has the server perform a numbered write exactly once (`statements.numbered_writes`)."""
        answer, _ = self._wait_for("write", RemoteStatement(self), head, b"")
        return int(answer["rowcount"])

    def register(self, name: str, table: pa.Table) -> None:
        """Copies a table to the server under that name."""
        descriptor = flight.FlightDescriptor.for_command(
            packed({"register": name, "rows": table.num_rows})
        )

        def send() -> None:
            with self._call() as client:
                writer, _ = client.do_put(descriptor, pa.schema([]), self._options)
                with writer:
                    # As metadata: the server looks at each message before Arrow reads it.
                    for batches in [[batch] for batch in table.to_batches()] or [[]]:
                        writer.write_metadata(batches_buffer(batches, table.schema))
                    writer.done_writing()

        self._translated(send)

    def ask(self, kind: str, head: dict[str, Any], body: bytes = b"") -> _Answered:
        """The server's answer to a request, with its Arrow data; raises the error in the answer.
        The server enforces a "timeout" in the request; if it does not answer in time, the call is
        abandoned."""
        options = self._options_of(head.get("timeout"))

        def call() -> bytes:
            with self._call() as client:
                (answer,) = client.do_action(flight.Action(kind, packed(head, body)), options)
            return bytes(answer.body.to_pybytes())

        try:
            answer, data = unpacked(self._translated(call))
        except WrongMessage as error:
            raise OperationalError(
                f"the server at {self.url} isn't one of Runnel's", detail=str(error)
            ) from error
        if "error" in answer:
            raise error_of(answer["error"])
        return answer, data

    def check_open(self) -> None:
        """InterfaceError if the connection is closed."""
        if self.is_closed:
            raise closed_error(self.origin)

    def leave(self) -> None:
        """In a forked child the connection is closed: its socket is the parent's."""
        self.is_closed = True
        self._lock = Lock()
        for rows in self._reading:
            pin(rows)

    def close(self) -> None:
        """Disconnects. The server ends the client's statements; named jobs continue. Closing twice
        is no error. No thread reads afterwards: one that returned from Flight to a finalized
        interpreter would crash the process."""
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
            is_free = not self._calls
            reading = list(self._reading)
        for rows in reading:
            rows.cancel()
        for rows in reading:
            rows.join(LEAVING)
        if is_free:
            self._client.close()

    @contextmanager
    def _call(self) -> Iterator[flight.FlightClient]:
        """The client, for one call. Closing it during a call of another thread would crash the
        process, so the last call closes it."""
        with self._lock:
            self.check_open()
            self._calls += 1
        try:
            yield self._client
        finally:
            with self._lock:
                self._calls -= 1
                is_last = self.is_closed and not self._calls
            if is_last:
                self._client.close()

    def _options_of(self, timeout: float | None) -> flight.FlightCallOptions:
        return (
            self._options
            if timeout is None
            else flight.FlightCallOptions(timeout=timeout + LATE, headers=self._headers)
        )

    def _rows(
        self, statement: RemoteStatement, fields: tuple[Field, ...], timeout: float | None
    ) -> RemoteRows:
        try:
            reader = self._translated(lambda: self._rows_of(statement, timeout))
        except BaseException:
            statement.cancel()
            raise
        rows = RemoteRows(reader, fields, statement.cancel, self._translated)
        with self._lock:
            self._reading.add(rows)
            is_late = self.is_closed
        if is_late:
            rows.cancel()
        return rows

    def _rows_of(
        self, statement: RemoteStatement, timeout: float | None
    ) -> flight.FlightStreamReader:
        with self._call() as client:
            return client.do_get(flight.Ticket(statement.name.encode()), self._options_of(timeout))

    def _wait_for(
        self, kind: str, statement: RemoteStatement, head: dict[str, Any], body: bytes
    ) -> _Answered:
        """The answer to a request that may take long. A call into Flight does not notice Ctrl-C, so
        for the main thread another thread makes the call."""
        content = head | {"statement": statement.name}
        if current_thread() is not main_thread():
            return self.ask(kind, content, body)
        answers: list[_Answered | BaseException] = []
        done = Lock()
        done.acquire()

        def call() -> None:
            try:
                answers.append(self.ask(kind, content, body))
            except BaseException as error:
                answers.append(error)
            finally:
                done.release()

        Thread(target=call, name="runnel-call", daemon=True).start()
        acquire(done, None)
        (answer,) = answers
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _translated(self, call: Callable[[], _Answer]) -> _Answer:
        """The result of the call; exceptions of Flight are converted to PEP 249 errors."""
        try:
            return call()
        except flight.FlightServerError as error:
            raise _unpacked_error(error, self.url) from None
        except flight.FlightUnauthenticatedError as error:
            raise OperationalError(
                f"the server at {self.url} refuses the token",
                code=ErrorCode.CONNECTION_PROBLEM,
                hint="give connect(token=…) the token that the server was started with",
            ) from error
        except flight.FlightTimedOutError as error:
            raise OperationalError(
                f"the server at {self.url} did not answer in the time of the statement",
                code=ErrorCode.TIMEOUT,
                hint="does it still run?",
            ) from error
        except flight.FlightCancelledError as error:
            raise OperationalError(
                "the statement was cancelled", code=ErrorCode.CANCELLED
            ) from error
        except (pa.ArrowException, OSError) as error:
            raise OperationalError(
                f"the server at {self.url} can't be reached",
                code=ErrorCode.CONNECTION_PROBLEM,
                detail=_first_line(error),
                hint="does it run, and is this its address?",
            ) from error


def _unpacked_error(error: flight.FlightServerError, url: str) -> DatabaseError | InterfaceError:
    """The error that the server encoded in an error of Flight."""
    try:
        return error_of(json.loads(error.extra_info))  # type: ignore[return-value]
    except (ValueError, KeyError, TypeError):
        return OperationalError(
            f"the server at {url} failed",
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=_first_line(error),
        )


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0].split(" gRPC client debug context")[0]


def location_of(url: str) -> str:
    """Flight's form of a server address; InterfaceError if the address is invalid, or contains a
    secret. The error shows no secret."""
    if "@" in url:
        raise InterfaceError(
            "the address of a server has no user and no password",
            hint="give its token: connect(address, token=…)",
        )
    schemes = {"runnel": "grpc", "runnel+tls": "grpc+tls"}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if (
        not host
        or port is None
        or parts.scheme not in schemes
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        shown = re.split("[?#]", url)[0]
        raise InterfaceError(
            f"{shown!r} is no address of a server",
            hint='one is written like "runnel://127.0.0.1:4711", or "runnel+tls://…"',
        )
    return f"{schemes[parts.scheme]}://{f'[{host}]' if ':' in host else host}:{port}"
