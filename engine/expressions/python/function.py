"""The description of a user function, which is written in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from itertools import count
from typing import Any

from runnel.base.frozen import frozen
from runnel.sqltypes import SqlType

_versions = count(1)


@frozen
class PythonFunction:
    """A function that `Connection.create_function` registered under a name.

    name: the name in SQL.
    function: accepts one Arrow array per parameter, all of one length and of the parameters'
      canonical types, and returns an array of that length. With `is_scalar` it accepts and returns
      Python values, as a fetch returns them, for one row at a time.
    parameters: the types of the parameters.
    result: the type of the result.
    is_scalar: whether `function` is called with Python values.
    skips_nulls: whether `function` isn't called for rows with a NULL argument, whose value is NULL.
    is_deterministic: whether equal arguments always have equal values.
    is_aggregate: whether `function` accepts the rows of a group, and returns one value.
    returns_null: whether the value of a row is NULL if `function` raised an exception for it; only
      with `is_scalar`.
    is_own: whether it belongs to the engine, so that its errors are the statement's.
    version: distinguishes functions; each creation has another one.
    """

    name: str
    function: Callable[..., Any] = field(compare=False)
    parameters: tuple[SqlType, ...]
    result: SqlType
    is_scalar: bool = False
    skips_nulls: bool = False
    is_deterministic: bool = True
    is_aggregate: bool = False
    returns_null: bool = False
    is_own: bool = False
    version: int = field(default_factory=lambda: next(_versions))
