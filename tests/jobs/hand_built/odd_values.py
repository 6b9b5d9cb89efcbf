"""Suppliers and arguments of hand-built jobs that behave unusually."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Flag
from typing import Any, NamedTuple

from runnel.processor import Processor


class Colour(Flag):
    RED = 1
    BLUE = 2


class Meta(type):
    """Classes that cannot be compared."""

    def __eq__(cls, other: object) -> bool:
        raise ValueError("not comparable")

    def __hash__(cls) -> int:
        return 1


class Uncomparable(metaclass=Meta):
    pass


class Strict:
    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


@dataclass
class Ending:
    """A supplier whose second instance ends the program."""

    number: int

    def __post_init__(self) -> None:
        if self.number == 99:
            sys.exit(2)

    def __call__(self) -> Processor:
        return Processor()


def processor(*_: object) -> Processor:
    return Processor()


def nothing() -> None:
    """Returns no processor."""


def ends() -> Processor:
    sys.exit(3)


class Point(NamedTuple):
    """A subclass of tuple."""

    x: int
    y: int
