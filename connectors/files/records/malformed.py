"""Records that can't be read: the option 'onError', and what becomes of them.

'onError' = 'fail' the query fails; the error names the place, the value and what is wrong (the
default) 'onError' = 'skip' they are left out, counted and logged 'onError' = 'divert:mapping' the
same, and they go to that mapping: place, record and reason
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from runnel.base.frozen import frozen
from runnel.connector import MalformedRecord
from runnel.connectors.options import Option
from runnel.errors import Error

_LOGGER = logging.getLogger("runnel.connectors")
_DIVERT = "divert:"
SHOWN_CHARACTERS = 80
"""How much of a record the log shows."""


@frozen
class OnError:
    """The option's value: whether a malformed record ends the query, and the mapping that gets it
    else, if one does."""

    fails: bool
    mapping: str | None = None


FAIL, SKIP = OnError(True), OnError(False)


def on_error(name: str) -> Option[OnError]:
    """The option: fail, skip, or divert:<mapping>."""

    def parse(value: str) -> OnError:
        word = value.strip()
        if word.lower() in ("fail", "skip"):
            return FAIL if word.lower() == "fail" else SKIP
        mapping = word[len(_DIVERT) :].strip()
        if not word.lower().startswith(_DIVERT) or not mapping:
            raise ValueError(value)
        return OnError(False, mapping)

    return Option(name, parse, "fail, skip or divert:<mapping>", FAIL)


class Malformed:
    """The malformed records of one partition. `source` is what the log calls it."""

    def __init__(self, on_error: OnError, source: str) -> None:
        self.on_error = on_error
        self._source = source
        self._diverted: list[MalformedRecord] = []
        self._first: tuple[Error, str] | None = None
        self._logged = 0
        self.count = 0

    @property
    def fails(self) -> bool:
        return self.on_error.fails

    def leave_out(self, error: Error, record: str) -> None:
        """Raises the error, or leaves the record out. The error's detail is the place."""
        if self.on_error.fails:
            raise error
        self.count += 1
        if self._first is None:
            self._first = (error, record)
        if self.on_error.mapping is not None:
            self._diverted.append(
                MalformedRecord(error.detail or self._source, record, error.message)
            )

    def log(self) -> None:
        """Tells in one line of those that were left out since the last call."""
        if self._first is None:
            return
        error, record = self._first
        _LOGGER.warning(
            "%s: %d malformed records left out, %d in all; the first: %s (%s): %.*s",
            self._source,
            self.count - self._logged,
            self.count,
            error.message,
            error.detail,
            SHOWN_CHARACTERS,
            record,
        )
        self._first, self._logged = None, self.count

    def take(self) -> Sequence[MalformedRecord]:
        """Those to divert since the last call."""
        taken, self._diverted = self._diverted, []
        return taken
