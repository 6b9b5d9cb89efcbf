"""Typed reading of a mapping's OPTIONS ('name' = 'value', …).

A connector declares its options once, as constants, and lists them in an `OptionSet`. Reading
checks all of them together: an unknown name, a value that is not allowed and a missing option are
ProgrammingErrors that name the option, the connector and the remedy. Names, and the words of a
choice, are compared without regard to case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from runnel.errors import ProgrammingError, suggest

T = TypeVar("T")

_NANOSECONDS = {
    1_000_000: ("ms", "millisecond", "milliseconds"),
    1_000_000_000: ("s", "sec", "second", "seconds"),
    60_000_000_000: ("min", "minute", "minutes"),
    3_600_000_000_000: ("h", "hour", "hours"),
    86_400_000_000_000: ("d", "day", "days"),
}
_DURATION_UNITS = {unit: factor for factor, units in _NANOSECONDS.items() for unit in units}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_INTEGER = re.compile(r"\s*[+-]?\d{1,18}\s*")
_TRUTHS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option.

    name: the name as the pages and the errors spell it.
    parse: converts the text to a value; ValueError if the text is not allowed.
    allowed: describes the allowed texts, for hints and pages.
    default: the value without the option; None if there is no default.
    required: whether the statement must set the option.
    """

    name: str
    parse: Callable[[str], T]
    allowed: str
    default: T | None = None
    required: bool = False


def text(name: str, default: str | None = None, *, required: bool = False) -> Option[str]:
    """Any text that is not empty."""

    def parse(value: str) -> str:
        if not value:
            raise ValueError("empty")
        return value

    return Option(name, parse, "text that isn't empty", default, required)


def free_text(name: str, default: str | None = None) -> Option[str]:
    """Any text, also the empty one."""
    return Option(name, str, "any text", default)


def boolean(name: str, default: bool | None = None) -> Option[bool]:
    """true or false (also on, off, 1, 0)."""

    def parse(value: str) -> bool:
        found = _TRUTHS.get(value.strip().lower())
        if found is None:
            raise ValueError(value)
        return found

    return Option(name, parse, "true or false", default)


def integer(
    name: str,
    default: int | None = None,
    *,
    least: int = 0,
    most: int | None = None,
    required: bool = False,
) -> Option[int]:
    """A whole number from `least` to `most` (None: no upper bound)."""

    def parse(value: str) -> int:
        if _INTEGER.fullmatch(value) is None:
            raise ValueError(value)
        number = int(value)
        if number < least or (most is not None and number > most):
            raise ValueError(value)
        return number

    allowed = (
        f"a whole number of at least {least}"
        if most is None
        else f"a whole number from {least} to {most}"
    )
    return Option(name, parse, allowed, default, required)


def duration(name: str, default: int | None = None) -> Option[int]:
    """A length of time such as '500 ms', '1.5 s', '10 minutes', '1 h' or '7 days', in nanoseconds.

    '0' needs no unit.
    """

    def parse(value: str) -> int:
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValueError(value)
        number, unit = match.groups()
        factor = _DURATION_UNITS.get(unit.lower())
        if factor is None:
            if unit or float(number) != 0:
                raise ValueError(value)
            factor = 0
        return round(float(number) * factor)

    return Option(
        name, parse, "a length of time such as '500 ms', '10 s', '5 minutes' or '1 h'", default
    )


def choice(
    name: str, words: tuple[str, ...], default: str | None = None, *, required: bool = False
) -> Option[str]:
    """One of `words`; the value has the spelling of `words`, whatever the case of the text."""

    def parse(value: str) -> str:
        for word in words:
            if word.lower() == value.strip().lower():
                return word
        raise ValueError(value)

    return Option(name, parse, "one of " + ", ".join(words), default, required)


class Options:
    """The checked options of one mapping."""

    def __init__(self, connector: str, values: Mapping[str, Any]) -> None:
        self._connector = connector
        self._values = values

    def get(self, option: Option[T]) -> T | None:
        """The value that the statement sets, else the default; None if there is neither."""
        value: T | None = self._values.get(option.name, option.default)
        return value

    def require(self, option: Option[T]) -> T:
        """The value that the statement sets, else the default; ProgrammingError if there is
        neither."""
        value: T | None = self._values.get(option.name, option.default)
        if value is None:
            raise _missing(self._connector, option)
        return value

    def is_set(self, option: Option[Any]) -> bool:
        """Whether the statement sets the option."""
        return option.name in self._values


class OptionSet:
    """The options of a connector."""

    def __init__(self, connector: str, *options: Option[Any]) -> None:
        self.connector = connector
        self.options = options
        self._by_name = {option.name.lower(): option for option in options}

    def read(self, options: Mapping[str, str]) -> Options:
        """Checks all options of a statement: their names and values, and that no required one is
        missing."""
        values: dict[str, Any] = {}
        for name, value in options.items():
            option = self._by_name.get(name.lower())
            if option is None:
                raise self._unknown(name)
            if option.name in values:
                raise ProgrammingError(
                    f'option "{option.name}" of connector {self.connector} is given twice'
                )
            values[option.name] = self._parse(option, value)
        for option in self.options:
            if option.required and option.name not in values:
                raise _missing(self.connector, option)
        return Options(self.connector, values)

    def _parse(self, option: Option[T], value: str) -> T:
        try:
            return option.parse(value)
        except ValueError:
            hint = f"it accepts {option.allowed}"
            message = (
                f"wrong value '{value}' for option \"{option.name}\" of connector {self.connector}"
            )
            raise ProgrammingError(message, hint=hint) from None

    def _unknown(self, name: str) -> ProgrammingError:
        names = [option.name for option in self.options]
        known = "its options are " + ", ".join(names) if names else "it has no options"
        return ProgrammingError(
            f'unknown option "{name}" of connector {self.connector}',
            hint=suggest(name, names, known),
        )


def _missing(connector: str, option: Option[Any]) -> ProgrammingError:
    hint = f"add OPTIONS ('{option.name}' = '…'); it accepts {option.allowed}"
    return ProgrammingError(
        f'option "{option.name}" of connector {connector} is missing', hint=hint
    )
