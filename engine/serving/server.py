"""The serving side: an Arrow Flight server in front of a connection.

It listens on loopback unless it is given another address, which needs a certificate: the token would be readable on the way.
Every call must carry a token, compared in constant time. What clients send is SQL with its arguments, and tables to register.
Statements run in this process: those with the owner's token without bounds, so that it is worth as much as an account; those
with the users' token within the bounds that the owner set.
"""

from __future__ import annotations

import gc
import hmac
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from threading import Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

import pyarrow as pa
import pyarrow.flight as flight

from runnel.connection import Connection
from runnel.cursor import presentable
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError
from runnel.forks import here, watch
from runnel.frozen import frozen
from runnel.rows import Result
from runnel.serving.messages import (
    HEADER,
    PROTOCOL,
    WrongMessage,
    arguments_of,
    batches_message,
    error_message,
    fields_message,
    packed,
    unpacked,
)
from runnel.serving.statements import OpenStatements
from runnel.statements.call import Caller

if TYPE_CHECKING:
    from runnel.database import Database

logger = logging.getLogger("runnel.serving")

_TOKEN = "token"
"""What Flight calls the middleware that looks at tokens."""

ENDING = 10.0
"""Seconds that cancelled statements of clients have to end when the server stops."""


@frozen
class Address:
    """Where a server listens: `host` is an IP address or "localhost", `port` 0 for one that is free. `certificate` and `key`
    are PEM texts, both or none."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: bytes | None = None
    key: bytes | None = None


class _Known(flight.ServerMiddleware):  # type: ignore[misc]
    """Goes with a call that carries a token: who makes it."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self.caller = caller


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets no call pass that doesn't carry a token."""

    def __init__(self, callers: Mapping[str, Caller]) -> None:
        super().__init__()
        self._expected = [(f"Bearer {token}".encode(), caller) for token, caller in callers.items()]

    def start_call(self, info: object, headers: dict[str, list[str]]) -> _Known:
        given = headers.get(HEADER.decode(), [""])[0].encode(errors="replace")
        # All of them are compared, so that the time doesn't tell which one is near.
        found = [caller for expected, caller in self._expected if hmac.compare_digest(given, expected)]
        if not found:
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")
        return _Known(found[0])


def _caller(context: flight.ServerCallContext) -> Caller:
    known = context.get_middleware(_TOKEN)
    assert isinstance(known, _Known)
    return known.caller


class Server(flight.FlightServerBase):  # type: ignore[misc]
    """Serves a connection, which stays the caller's. Its threads are Flight's; one call runs in each."""

    def __init__(
        self, connection: Connection, token: str, address: Address | None = None, *, user_token: str | None = None
    ) -> None:
        """Listens when it returns; OperationalError where the address can't be had, ProgrammingError where it mayn't. `token`
        is the owner's; `user_token` that of users, whose statements keep within the connection's bounds (None: no users)."""
        address = address or Address()
        _check_address(address)
        self._connection = connection
        self._database = connection._database
        callers = _callers(self._database, token, user_token)
        self._statements = OpenStatements()
        secure = address.certificate is not None
        location = f"grpc{'+tls' if secure else ''}://{_in_url(address.host)}:{address.port}"
        options: dict[str, Any] = {"middleware": {_TOKEN: _TokenCheck(callers)}}
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
                else "is the port taken? Port 0 takes a free one",
            ) from error
        self._origin = here()
        watch(self)
        self.url = f"runnel{'+tls' if secure else ''}://{_in_url(address.host)}:{self.port}"

    def leave(self) -> None:
        """In a forked child there is none of Flight's threads: the server is the parent's. Flight's own finalizer, which only
        the base class knows, would wait for them when the child ends."""
        for item in gc.get_referents(self):
            if isinstance(item, finalize):
                item.detach()

    def stop(self) -> bool:
        """Ends all statements of clients, and then listens no more. False where one doesn't end in time: it is left behind, and
        told in the log."""
        if self._origin.is_left:
            return True
        self._statements.cancel_all()
        ending = Thread(target=self.shutdown, name="runnel server ending", daemon=True)
        ending.start()
        ending.join(ENDING)
        if ending.is_alive():
            logger.error("%d statements of clients don't end: they are left behind", len(self._statements))
        return not ending.is_alive()

    # What Flight calls

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        try:
            head, body = unpacked(action.body.to_pybytes())
            answer = self._answer(action.type, head, body, _caller(context))
        except WrongMessage as error:
            answer = packed({"error": error_message(_not_understood(str(error)))})
        except Exception as error:
            shown = presentable(error, None)
            assert isinstance(shown, Error)
            if shown.code is ErrorCode.INTERNAL:
                logger.exception("a statement of a client failed")
            answer = packed({"error": error_message(shown)})
        return iter([answer])

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        name = ticket.ticket.decode(errors="replace")
        try:
            result = self._statements.take_rows(name)
        except Error as error:
            raise _flight_error(error) from error
        return flight.GeneratorStream(result.schema, self._rows(name, result, context))

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        try:
            head, _ = unpacked(descriptor.command)
            table = reader.read_all()
            table.validate(full=True)
            self._register(str(head["register"]), table, _caller(context))
        except (WrongMessage, KeyError, pa.ArrowException) as error:
            raise _flight_error(_not_understood(str(error))) from error
        except Error as error:
            raise _flight_error(error) from error

    # What they ask for

    def _answer(self, kind: str, head: dict[str, Any], body: bytes, caller: Caller) -> bytes:
        self._database.check_open()
        if kind == "hello":
            return packed({"protocol": PROTOCOL})
        if kind == "execute":
            return self._execute(head, body, caller)
        if kind == "executemany":
            return self._execute_many(head, body, caller)
        if kind == "write":
            return self._write(head, caller)
        if kind == "cancel":
            self._statements.cancel(_text(head, "statement"))
        elif kind == "end":
            self._statements.end(_text(head, "statement"))
        elif kind == "unregister":
            self._connection._unregister(_text(head, "name"), caller)
        elif kind == "unregister all":
            self._unregister_all(_text(head, "prefix"), caller)
        else:
            raise WrongMessage(f'there is no action "{kind}"')
        return packed({})

    def _execute(self, head: dict[str, Any], body: bytes, caller: Caller) -> bytes:
        name, sql, timeout = _text(head, "statement"), _text(head, "sql"), head.get("timeout")
        rows = arguments_of(head, body)
        statement = self._statements.begin(name)
        try:
            outcome = self._database.run(sql, rows[0] if rows else (), timeout, statement.watch, caller)
        except BaseException:
            self._statements.end(name)
            raise
        if isinstance(outcome, int):
            self._statements.end(name)
            return packed({"rowcount": outcome})
        statement.give(outcome)
        told = {
            "fields": fields_message(outcome.fields),
            "is_unbounded": outcome.is_unbounded,
            "can_end": outcome.can_end,
        }
        if not _are_few(outcome):
            return packed(told)
        try:
            return packed(told | {"has_rows": True}, batches_message(list(outcome.batches()), outcome.schema))
        finally:
            self._statements.end(name)

    def _execute_many(self, head: dict[str, Any], body: bytes, caller: Caller) -> bytes:
        name, sql, timeout = _text(head, "statement"), _text(head, "sql"), head.get("timeout")
        statement = self._statements.begin(name)
        try:
            rows = arguments_of(head, body)
            return packed({"rowcount": self._database.run_many(sql, rows, timeout, statement.watch, caller)})
        finally:
            self._statements.end(name)

    def _register(self, name: str, table: pa.Table, caller: Caller) -> None:
        # Loaded on first use: few clients register anything.
        from runnel.connection import _check_name
        from runnel.connectors.arrow import registered_table

        _check_name(name)
        self._connection._register(name, registered_table(name, table), caller)

    def _unregister_all(self, prefix: str, caller: Caller) -> None:
        """Takes back the registrations whose names begin so."""
        for name in [item.name for item in self._database.catalog.snapshot if item.name.startswith(prefix)]:
            with suppress(Error):  # another client took it back, or it isn't this one's
                self._connection._unregister(name, caller)

    def _write(self, head: dict[str, Any], caller: Caller) -> bytes:
        # Loaded on first use: few clients number what they write.
        from runnel.statements.numbered_writes import NumberedWrite

        name, number = _text(head, "statement"), head.get("number")
        if not isinstance(number, int):
            raise WrongMessage('a message has no "number"')
        write = NumberedWrite(
            writer=_text(head, "writer"),
            number=number,
            statement=_text(head, "kind"),
            table=_text(head, "table"),
            columns=tuple(map(str, head.get("columns", ()))),
            rows=tuple(map(str, head.get("rows", ()))),
        )
        statement = self._statements.begin(name)
        try:
            return packed({"rowcount": self._database.numbered_writes.write(self._database, write, statement.watch, caller)})
        finally:
            self._statements.end(name)

    def _rows(self, name: str, result: Result, context: flight.ServerCallContext) -> Iterator[pa.RecordBatch]:
        """The rows, until the client has enough or is gone."""

        def check() -> None:
            if context.is_cancelled():
                raise OperationalError("the client is gone", code=ErrorCode.CANCELLED)

        result.watch(check)
        try:
            yield from result.batches()
        except Exception as error:
            shown = presentable(error, None)
            assert isinstance(shown, Error)
            raise _flight_error(shown) from error
        finally:
            self._statements.end(name)


def _callers(database: Database, token: str, user_token: str | None) -> dict[str, Caller]:
    """Who carries which token."""
    callers = {token: database.owner}
    if user_token is not None:
        if user_token == token:
            raise ProgrammingError("the owner's token and the user's are the same", hint="give two")
        callers[user_token] = Caller(False, database.bounds)
    for item in callers:
        if len(item) < 16 or not item.isascii() or not item.isprintable():
            raise ProgrammingError(
                "the token of a server has at least 16 printable ASCII characters",
                hint="leave it out to have one made, which only you can read",
            )
    return callers


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


def _are_few(result: Result) -> bool:
    """Whether all rows are there already, and few: they are then sent with the answer."""
    job = result.job
    return job is None or (job.is_done and len(job.results) <= 1)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _text(head: dict[str, Any], name: str) -> str:
    value = head.get(name)
    if not isinstance(value, str):
        raise WrongMessage(f'a message has no "{name}"')
    return value


def _not_understood(reason: str) -> ProgrammingError:
    return ProgrammingError(
        "the server doesn't understand the client", detail=reason, hint="are both of the same version of Runnel?"
    )


def _flight_error(error: Error) -> flight.FlightServerError:
    return flight.FlightServerError(error.message, extra_info=json.dumps(error_message(error)).encode())
