"""User functions, written in Python: what SQL knows of one."""

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
    """A function that `Connection.create_function` gave a name.

    `function` takes one Arrow array per parameter, all of one length and of the parameters'
    canonical types, and gives an array of that length; where `is_scalar` it takes and gives Python
    values, as a fetch shows them, a row at a time.
    `skips_nulls`: it isn't called for rows with a NULL argument, whose value is NULL.
    `is_deterministic`: equal arguments give equal values. `is_aggregate`: it takes the rows of a
    group, and gives one value. Functions are told apart by `version`.
    """

    name: str
    function: Callable[..., Any] = field(compare=False)
    parameters: tuple[SqlType, ...]
    result: SqlType
    is_scalar: bool = False
    skips_nulls: bool = False
    is_deterministic: bool = True
    is_aggregate: bool = False
    version: int = field(default_factory=lambda: next(_versions))
