"""The server's side: an Arrow Flight server for a connection.

It listens on loopback unless it is given another address, which needs a certificate: otherwise the
token could be read in transit. Every call must carry a token, compared in constant time. Clients
send SQL with its arguments, and tables to register. Statements run in this process: with the
owner's token without bounds, so that this token is worth as much as an account; with the users'
token within the bounds that the owner set.
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from threading import Thread
from typing import Any
from weakref import finalize

import pyarrow as pa
import pyarrow.flight as flight

from runnel.base.forks import here, watch
from runnel.base.frozen import frozen
from runnel.connection import Connection, _check_name
from runnel.errors import (
    DataError,
    Error,
    ErrorCode,
    OperationalError,
    ProgrammingError,
    presentable,
)
from runnel.results.rows import Result
from runnel.serving.messages import (
    PROTOCOL,
    WrongMessage,
    arguments_of,
    batches_message,
    count_in,
    error_message,
    fields_message,
    packed,
    request,
    text_in,
    texts_in,
    timeout_in,
)
from runnel.serving.open_calls import OpenCall, OpenCalls
from runnel.serving.row_stream import RowStream
from runnel.serving.sockets import connected_clients, cut_connection
from runnel.serving.statements import OpenStatement, OpenStatements
from runnel.serving.table_upload import TableUpload
from runnel.serving.tokens import KnownCall, TokenCheck
from runnel.session.session import Caller, Session
from runnel.statements.run import SessionExecutor

logger = logging.getLogger("runnel.serving")

_TOKEN = "token"
"""Flight's key for the middleware that checks tokens."""

_LONG = frozenset({"execute", "executemany", "write"})
"""Requests that may take long, so that the client may disconnect before the answer."""
LONGEST_NAME = 1000
"""Maximum number of bytes that are read of a statement's name."""

ENDING = 10.0
"""Seconds that cancelled statements of clients have to end when the server stops."""


@frozen
class Address:
    """The address of a server.

    host: IP address or "localhost".
    port: number of the port; 0: any free one.
    certificate, key: PEM texts, both or none.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: bytes | None = None
    key: bytes | None = None


@frozen
class ServerLimits:
    """The limits for clients.

    message: maximum bytes of one message.
    table: maximum bytes of one registered table, which is sent in many messages.
    client_timeout: seconds that a client may leave its rows unread.
    """

    message: int = 256 << 20
    table: int = 2 << 30
    client_timeout: float = 300.0


def _known(context: flight.ServerCallContext) -> KnownCall:
    known = context.get_middleware(_TOKEN)
    assert isinstance(known, KnownCall)
    return known


class Server(flight.FlightServerBase):  # type: ignore[misc]
    """Serves a connection, which remains the caller's. Its threads are Flight's; each runs one
    call."""

    def __init__(
        self,
        connection: Connection,
        token: str,
        address: Address | None = None,
        *,
        user_token: str | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        """Listens when it returns; OperationalError if the address is not available,
        ProgrammingError if it is not allowed. `token` is the owner's; statements with `user_token`
        are subject to the connection's bounds (None: no users)."""
        address = address or Address()
        _check_address(address)
        self._connection = connection
        self._database = connection._database
        self._tokens = TokenCheck(
            connection._session.caller, Caller(False, self._database.bounds), token, user_token
        )
        self._limits = limits or ServerLimits()
        self._statements = OpenStatements(lambda: connected_clients(self.port))
        self._calls = OpenCalls(self._statements.look, lambda peer: cut_connection(peer, self.port))
        secure = address.certificate is not None
        location = f"grpc{'+tls' if secure else ''}://{_in_url(address.host)}:{address.port}"
        options: dict[str, Any] = {"middleware": {_TOKEN: self._tokens}}
        if secure:
            options["tls_certificates"] = [(address.certificate, address.key)]
        try:
            super().__init__(location, **options)
        except (pa.ArrowException, OSError) as error:
            raise OperationalError(
                f"can't listen on {address.host}:{address.port}",
                code=ErrorCode.CONNECTION_PROBLEM,
                detail=str(error),
                hint="are certificate and key PEM texts that belong together?"
                if secure and address.port == 0
                else "another process may use the port; port 0 selects a free one",
            ) from error
        self._origin = here()
        watch(self)
        self.url = f"runnel{'+tls' if secure else ''}://{_in_url(address.host)}:{self.port}"

    def leave(self) -> None:
        """Abandons the server in a forked process, which has none of Flight's threads. Flight's
        finalizer, which only the base class can access, would wait for these threads when the
        process ends."""
        for item in gc.get_referents(self):
            if isinstance(item, finalize):
                item.detach()

    def change_tokens(self, token: str, user_token: str | None) -> None:
        """From now on new calls need one of these tokens; running statements continue.
        ProgrammingError for an invalid token: then the old ones remain."""
        self._tokens.change(token, user_token)

    def stop(self) -> bool:
        """Ends all statements of clients, and stops listening. False if one does not end in time:
        it is abandoned, and logged."""
        if self._origin.is_left:
            return True
        self._statements.cancel_all()
        ending = Thread(target=self.shutdown, name="runnel server ending", daemon=True)
        ending.start()
        ending.join(ENDING)
        if ending.is_alive():
            logger.error(
                "%d statements of clients did not end: abandoning them", len(self._statements)
            )
        self._calls.close()
        return not ending.is_alive()

    # Called by Flight

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> Iterator[bytes]:
        return iter([self.answer(action.type, action.body, context)])

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.GeneratorStream:
        name = ticket.ticket[:LONGEST_NAME].decode(errors="replace")
        try:
            result = self._statements.take_rows(name)
            rows = RowStream(
                result,
                context,
                self._calls,
                end=lambda: self._statements.end(name),
                timeout=self._limits.client_timeout,
            )
            _known(context).rows = rows
            return flight.GeneratorStream(result.schema, _as_flight(rows))
        except Exception as error:
            raise _flight_error(_presentable(error)) from error

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        try:
            self.register(descriptor.command or b"", reader, context)
        except Error as error:
            raise _flight_error(error) from error

    def register(
        self,
        message: bytes,
        reader: flight.MetadataRecordBatchReader,
        context: flight.ServerCallContext,
    ) -> None:
        """Registers a table that a client sends; Error if it cannot be registered."""
        try:
            head, _ = request(message)
            name = text_in(head, "register")
            upload = TableUpload(context, self._calls, timeout=self._limits.client_timeout)
            table = upload.receive(reader, count_in(head, "rows"), self._check_table)
            self._register(name, table, _known(context).caller)
        except Exception as error:
            raise _presentable(error) from error

    def _check_message(self, size: int) -> None:
        _check_size(size, self._limits.message, "the message", "--message-limit")

    def _check_table(self, size: int) -> None:
        _check_size(size, self._limits.table, "the table", "--table-limit")

    # Calls of Flight that Runnel's clients do not use

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> None:
        raise _unserved("list_flights")

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> None:
        raise _unserved("get_flight_info")

    def list_actions(self, context: flight.ServerCallContext) -> None:
        raise _unserved("list_actions")

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        raise _unserved("do_exchange")

    # Requests

    def answer(self, kind: str, message: pa.Buffer, context: flight.ServerCallContext) -> bytes:
        """The answer to one message, which may be an error; never raises."""
        try:
            self._check_message(message.size)
            head, body = request(message.to_pybytes())
            if kind not in _LONG:
                return self._answer(kind, head, _known(context).caller)
            return self._run(kind, head, body, context)
        except Exception as error:
            return packed({"error": error_message(_presentable(error))})

    def _run(
        self, kind: str, head: dict[str, Any], body: bytes, context: flight.ServerCallContext
    ) -> bytes:
        """Runs the statement of a message. The statement is added before any work that takes time,
        and before the call is watched: when a client disconnects after that, there is a statement
        to cancel."""
        self._database.check_open()
        name, caller = text_in(head, "statement"), _known(context).caller
        statement = self._statements.begin(name)
        try:
            with self._calls.watched(OpenCall(context, statement.cancel)):
                if kind == "execute":
                    return self._execute(statement, head, body, caller, context.peer())
                run = self._execute_many if kind == "executemany" else self._write
                return packed({"rowcount": run(statement, head, body, caller)})
        finally:
            if statement.result is None:  # else the client is to read its rows
                self._statements.end(name)

    def _answer(self, kind: str, head: dict[str, Any], caller: Caller) -> bytes:
        self._database.check_open()
        if kind == "hello":
            return packed({"protocol": PROTOCOL})
        if kind == "cancel":
            self._statements.cancel(text_in(head, "statement"))
        elif kind == "end":
            self._statements.end(text_in(head, "statement"))
        elif kind == "unregister":
            self._connection._unregister(text_in(head, "name"), caller)
        elif kind == "unregister all":
            self._unregister_all(text_in(head, "prefix"), caller)
        else:
            raise WrongMessage(f'there is no action "{kind}"')
        return packed({})

    def _execute(
        self, statement: OpenStatement, head: dict[str, Any], body: bytes, caller: Caller, peer: str
    ) -> bytes:
        sql, timeout = text_in(head, "sql"), timeout_in(head)
        rows = arguments_of(head, body, self._check_message)
        outcome = self._executor(caller).run(sql, rows[0] if rows else (), timeout, statement.watch)
        if isinstance(outcome, int):
            return packed({"rowcount": outcome})
        told = {
            "fields": fields_message(outcome.fields),
            "is_unbounded": outcome.is_unbounded,
            "can_end": outcome.can_end,
            "time_zone": outcome.zone,
        }
        if not _are_few(outcome):
            statement.give(outcome, peer)
            return packed(told)
        try:
            return packed(
                told | {"has_rows": True}, batches_message(list(outcome.batches()), outcome.schema)
            )
        finally:
            outcome.discard()

    def _execute_many(
        self, statement: OpenStatement, head: dict[str, Any], body: bytes, caller: Caller
    ) -> int:
        sql, timeout = text_in(head, "sql"), timeout_in(head)
        rows = arguments_of(head, body, self._check_message)
        return self._executor(caller).run_many(sql, rows, timeout, statement.watch)

    def _executor(self, caller: Caller) -> SessionExecutor:
        """Runs the statements of a client. All clients share the settings of the server."""
        database = self._database
        return SessionExecutor(Session(database, caller, database.owner_settings))

    def _register(self, name: str, table: pa.Table, caller: Caller) -> None:
        # Loaded on first use: few clients register anything.
        from runnel.connectors.arrow.tables import registered_table

        _check_name(name)
        self._connection._register(name, registered_table(name, table), caller)

    def _unregister_all(self, prefix: str, caller: Caller) -> None:
        """Removes the registrations whose names begin with a prefix."""
        for name in [
            item.name for item in self._database.catalog.snapshot if item.name.startswith(prefix)
        ]:
            with suppress(Error):  # another client removed it, or it is not this client's
                self._connection._unregister(name, caller)

    def _write(
        self, statement: OpenStatement, head: dict[str, Any], body: bytes, caller: Caller
    ) -> int:
        # Loaded on first use: few clients number what they write.
        from runnel.statements.numbered_writes import NumberedWrite, write_once

        write = NumberedWrite(
            writer=text_in(head, "writer"),
            number=count_in(head, "number"),
            statement=text_in(head, "kind"),
            table=text_in(head, "table"),
            columns=texts_in(head, "columns"),
            rows=texts_in(head, "rows"),
        )
        if write.statement not in ("INSERT", "SINK"):
            raise WrongMessage('the "kind" of a write is INSERT or SINK')
        return write_once(self._executor(caller), write, statement.watch)


def _as_flight(rows: RowStream) -> Iterator[pa.RecordBatch]:
    """The rows; errors are converted to errors of Flight."""
    try:
        yield from rows
    except Exception as error:
        raise _flight_error(_presentable(error)) from error


def _check_address(address: Address) -> None:
    if (address.certificate is None) != (address.key is None):
        raise ProgrammingError("a certificate and its key are given together")
    is_local = address.host == "localhost"
    with suppress(ValueError):
        is_local = is_local or ip_address(address.host).is_loopback
    if not is_local and address.certificate is None:
        raise ProgrammingError(
            f"a server that listens on {address.host} needs a certificate",
            detail="tokens and rows would be readable on the way",
            hint="give a certificate and its key, or listen on 127.0.0.1",
        )


def _check_size(size: int, limit: int, what: str, option: str) -> None:
    if size > limit:
        raise DataError(
            f"{what} has more than the {limit:,} bytes that the server accepts",
            detail=f"it has at least {size:,}",
            hint=f"send less at a time, or raise the server's {option}",
        )


def _are_few(result: Result) -> bool:
    """Whether all rows are available, and few: then they are sent with the answer."""
    job = result.job
    if result.is_stored:
        return False
    return job is None or (job.is_done and len(job.results) <= 1)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _presentable(error: Exception) -> Error:
    """The error as the client is to see it. Internal errors are logged as well."""
    if isinstance(error, WrongMessage):
        return ProgrammingError(
            "the server doesn't understand the client",
            detail=str(error),
            hint="are both of the same version of Runnel?",
        )
    shown = presentable(error, None)
    assert isinstance(shown, Error)
    if shown.code is ErrorCode.INTERNAL:
        logger.error("a statement of a client failed", exc_info=error)
    return shown


def _flight_error(error: Error) -> flight.FlightServerError:
    return flight.FlightServerError(
        error.message, extra_info=json.dumps(error_message(error)).encode()
    )


def _unserved(call: str) -> flight.FlightServerError:
    return _flight_error(_presentable(WrongMessage(f'there is no call "{call}"')))
