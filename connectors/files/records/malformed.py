"""Malformed records: the option 'onError', and the handling of records by its value.

- 'onError' = 'fail' (the default): the query fails; the error has the location, the value and the
  reason.
- 'onError' = 'skip': malformed records are left out, counted and logged.
- 'onError' = 'divert:mapping': as 'skip', and the location, the record and the reason are written
  to that mapping, the side output.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from runnel.base.frozen import frozen
from runnel.connector import MalformedRecord
from runnel.connectors.options import Option
from runnel.errors import Error

AnyError = TypeVar("AnyError", bound=Error)

_LOGGER = logging.getLogger("runnel.connectors")
_DIVERT = "divert:"
SHOWN_CHARACTERS = 80
"""How many characters of a record the log shows."""


@frozen
class OnError:
    """The value of the option.

    fails: whether a malformed record ends the query.
    mapping: the side output for malformed records; None if there is none.
    """

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


def naming_on_error(error: AnyError) -> AnyError:
    """The error of a malformed record, whose hint names the option that leaves such records out."""
    remedy = "leave such records out with 'onError' = 'skip', or 'divert:<mapping>'"
    if error.hint is None or "onError" not in error.hint:
        error.hint = remedy if error.hint is None else f"{error.hint}; or {remedy}"
    return error


class Malformed:
    """The malformed records of one partition. `source` is its name in the log."""

    def __init__(self, on_error: OnError, source: str) -> None:
        self.on_error = on_error
        self._source = source
        self._side_output: list[MalformedRecord] = []
        self._first: tuple[Error, str] | None = None
        self._logged = 0
        self.count = 0

    @property
    def fails(self) -> bool:
        return self.on_error.fails

    def leave_out(self, error: Error, record: str) -> None:
        """Raises the error, or leaves the record out. The error's detail is the location."""
        if self.on_error.fails:
            raise naming_on_error(error)
        self.count += 1
        if self._first is None:
            self._first = (error, record)
        if self.on_error.mapping is not None:
            self._side_output.append(
                MalformedRecord(error.detail or self._source, record, error.message)
            )

    def log(self) -> None:
        """Logs one line about the records that were left out since the last call."""
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
        """The records for the side output since the last call."""
        taken, self._side_output = self._side_output, []
        return taken
