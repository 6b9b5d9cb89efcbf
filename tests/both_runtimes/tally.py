"""What a part of the comparison has come to: counts, why Spark doesn't get something, which errors
are told in other words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from threading import Lock

import runnel
from runnel.errors import ERROR_MARK

_VALUE = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|[-+]?\d[\d.,:eE+-]*|\bNaN\b|-?\bInfinity\b""")
_VALUE_AFTER = re.compile(rf" (?:of )?(?:{_VALUE.pattern})(?: characters)?")
"""What our SQL leaves out of a message where a value would be quoted, which engines write in their
own ways."""
_TYPES = re.compile(r"\([A-Z0-9 ,()]*\)")
_LONGEST = 160


class Tally:
    """Counts from any thread. What is compared is right on both, or a difference."""

    def __init__(self) -> None:
        self.compared = 0
        self.fail_alike = 0
        self.differed = 0
        self.left: Counter[str] = Counter()
        """What isn't compared, as Spark doesn't get it, by the reason."""
        self.parts: Counter[str] = Counter()
        """Of what is compared, why Spark runs a part of it only."""
        self.sentences: Counter[str] = Counter()
        """Errors of the same class and code that Spark tells in its own words."""
        self._lock = Lock()

    def same(self, count: int = 1) -> None:
        with self._lock:
            self.compared += count

    def leave(self, why: str) -> None:
        """It isn't compared."""
        with self._lock:
            self.left[_TYPES.sub("", why)] += 1

    def cut(self, why: str) -> None:
        """Spark runs a part."""
        with self._lock:
            self.parts[_TYPES.sub("", why)] += 1

    def errors(self, here: runnel.Error | None, there: runnel.Error | None) -> str | None:
        """What is wrong with the errors that something gave, of which there is one at least. They
        must be of one class and code; where our SQL raises it on Spark, with the same words."""
        if here is None or there is None:
            return (
                f"fails on Spark only: {there!r}" if here is None else f"fails here only: {here!r}"
            )
        if (_class(here), here.code) != (_class(there), there.code):
            return f"on Spark {_named(there)}; here {_named(here)}"
        if ERROR_MARK in (there.detail or "") and there.message not in (
            here.message,
            _VALUE_AFTER.sub("", here.message),
        ):
            return f'the error on Spark is "{there.message}"; here "{here.message}"'
        with self._lock:
            self.fail_alike += 1
            if here.message != there.message:
                self.sentences[
                    f'"{_general(here.message)}" is "{_general(there.message)}" on Spark'
                ] += 1
        return None

    def lines(self, name: str) -> Iterator[str]:
        """For people."""
        alike = f"{self.fail_alike} errors alike, {self.sentences.total()} of them in other words"
        left = f"not expressible on Spark {self.left.total()}"
        yield f"{name}: compared {self.compared} ({alike}), differed {self.differed}, {left}"
        for what, counts in (
            ("not on Spark", self.left),
            ("in part on Spark", self.parts),
            ("in other words", self.sentences),
        ):
            for why, count in counts.most_common():
                yield f"  {what}: {count} x {why}"


def _class(error: runnel.Error) -> type:
    """The class of PEP 249: the engines know the cause of an error in other detail."""
    return next(item for item in type(error).__mro__ if item.__name__ in runnel.Connection.__dict__)


def _named(error: runnel.Error) -> str:
    return f"{_class(error).__name__} {error.code.name}: {error.message}"


def _general(message: str) -> str:
    """A message without the values that it quotes."""
    return _VALUE.sub("…", message)[:_LONGEST]
