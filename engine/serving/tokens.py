"""Who may call a server: each call carries a token, which says whose it is. Tokens can be changed
while the server runs."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import pyarrow.flight as flight

from runnel.errors import ProgrammingError
from runnel.serving.messages import HEADER
from runnel.statements.call import Caller

if TYPE_CHECKING:
    from runnel.serving.row_stream import RowStream

LEAST = 16
"""Characters that a token has at least."""
LEAST_DIFFERENT = 5
"""Different characters that a token has at least: fewer are a placeholder, not a secret."""


class KnownCall(flight.ServerMiddleware):  # type: ignore[misc]
    """Goes with a call that carries a token: who makes it, and the rows that it sends, if it sends
    any."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self.caller = caller
        self.rows: RowStream | None = None

    def call_completed(self, exception: BaseException | None) -> None:
        """Also called where the client is gone before it has taken a row: nothing else says so
        then."""
        rows, self.rows = self.rows, None
        if rows is not None:
            rows.close()


class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets no call pass that doesn't carry a token. `owner` and `user` are who calls with the
    owner's token and the users'."""

    def __init__(self, owner: Caller, user: Caller, token: str, user_token: str | None) -> None:
        super().__init__()
        # Flight never lets go of it, so it refers to nothing that is to be closed.
        self._owner, self._user = owner, user
        self._expected: list[tuple[bytes, Caller]] = []
        self.change(token, user_token)

    def change(self, token: str, user_token: str | None) -> None:
        """Calls that begin from now on need one of these tokens. ProgrammingError, and no change,
        for what can't be one."""
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
        # All of them are compared, so that the time doesn't tell which one is near.
        found = [
            caller for expected, caller in self._expected if hmac.compare_digest(given, expected)
        ]
        if not found:
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")
        return KnownCall(found[0])


def check_token(token: str) -> None:
    """ProgrammingError for a text that is no secret, or can't be sent. The error doesn't show
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
