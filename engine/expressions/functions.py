"""All scalar functions and operators, by the key that `Call.function` carries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runnel.expressions import (
    arithmetic,
    arrays,
    comparison,
    extract,
    extremes,
    logic,
    mathematics,
    patterns,
    rounding,
    strings,
    temporal,
)
from runnel.expressions.function import Function

_FAMILIES = (
    logic,
    comparison,
    arithmetic,
    mathematics,
    rounding,
    strings,
    patterns,
    extremes,
    extract,
    temporal,
    arrays,
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {function.name: function for family in _FAMILIES for function in family.FUNCTIONS}
)
SQL_NAMES: Mapping[str, Function] = MappingProxyType(
    {name: function for function in FUNCTIONS.values() for name in function.sql_names}
)
"""The functions that SQL calls by name, by that name in upper case."""
