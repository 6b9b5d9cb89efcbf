"""Authentication: each call carries a token, which identifies the caller. Tokens can be changed
while the server runs."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import pyarrow.flight as flight

from runnel.errors import ProgrammingError
from runnel.serving.messages import HEADER
from runnel.session.session import Caller

if TYPE_CHECKING:
    from runnel.serving.row_stream import RowStream

LEAST = 16
"""Minimum number of characters of a token."""
LEAST_DIFFERENT = 5
"""Minimum number of different characters of a token: with fewer it is a placeholder, not a
secret."""


class KnownCall(flight.ServerMiddleware):  # type: ignore[misc]
    """Accompanies a call with a valid token: its caller, and the rows that it sends, if any."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self.caller = caller
        self.rows: RowStream | None = None

    def call_completed(self, exception: BaseException | None) -> None:
        """Also called if the client disconnects before it has read a row: nothing else reports
        that."""
        rows, self.rows = self.rows, None
        if rows is not None:
            rows.close()


class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Rejects calls without a valid token. `owner` and `user` are the callers with the owner's
    token and the users' token."""

    def __init__(self, owner: Caller, user: Caller, token: str, user_token: str | None) -> None:
        super().__init__()
        # Flight never releases it, so it has no references to objects that must be closed.
        self._owner, self._user = owner, user
        self._expected: list[tuple[bytes, Caller]] = []
        self.change(token, user_token)

    def change(self, token: str, user_token: str | None) -> None:
        """From now on new calls need one of these tokens. ProgrammingError, and no change, for an
        invalid token."""
        callers = {token: self._owner}
        if user_token is not None:
            if user_token == token:
                raise ProgrammingError(
                    "the owner's token and the user's are the same", hint="give two"
                )
            callers[user_token] = self._user
        for item in callers:
            check_token(item)
        self._expected = [(f"Bearer {item}".encode(), caller) for item, caller in callers.items()]

    def start_call(self, info: object, headers: dict[str, list[str]]) -> KnownCall:
        given = str(headers.get(HEADER.decode(), [""])[0]).encode(errors="replace")
        # All of them are compared, so that the time does not reveal which one is similar.
        found = [
            caller for expected, caller in self._expected if hmac.compare_digest(given, expected)
        ]
        if not found:
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")
        return KnownCall(found[0])


def check_token(token: str) -> None:
    """ProgrammingError for a text that is not a secret, or cannot be sent. The error does not show
    it."""
    hint = "leave it out to have one made, which only you can read"
    if len(token) < LEAST or not token.isascii() or not token.isprintable():
        raise ProgrammingError(
            f"the token of a server has at least {LEAST} printable ASCII characters", hint=hint
        )
    if token != token.strip() or len(set(token)) < LEAST_DIFFERENT:
        raise ProgrammingError(
            "the token of a server is a secret, not blanks or a few characters again and again",
            detail=(
                f"it has at least {LEAST_DIFFERENT} different characters, "
                "and no blank at its begin or end"
            ),
            hint=hint,
        )
