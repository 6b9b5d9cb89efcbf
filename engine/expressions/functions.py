"""The registry of all scalar functions and operators, by the key that `Call.function` carries.

The families that most statements need are imported with this module. A lazy family is imported when
one of its functions is first looked up, so that a process that doesn't need it doesn't pay for the
import. `lazy_families` lists the functions of the lazy families.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from runnel.expressions.function import Function
from runnel.expressions.lazy_families import LATER
from runnel.expressions.logic import comparison, logic
from runnel.expressions.logic import greatest_least as extremes
from runnel.expressions.nested import construct as arrays
from runnel.expressions.numbers import arithmetic, mathematics, rounding
from runnel.expressions.text import patterns, strings
from runnel.expressions.time import extract, temporal

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


class FunctionRegistry(Mapping[str, Function]):
    """Functions by name; functions of lazy families are imported on first use.

    `known` are the functions of the imported families. `lazy` maps each other name to its module
    (relative to `runnel.expressions`) and the function's key in that module.
    """

    def __init__(self, known: Mapping[str, Function], lazy: Mapping[str, tuple[str, str]]) -> None:
        self._known = dict(known)
        self._lazy = lazy

    def __getitem__(self, name: str) -> Function:
        found = self._known.get(name)
        if found is None:
            module, key = self._lazy[name]
            family = import_module(f"runnel.expressions.{module}")
            found = self._known[name] = next(item for item in family.FUNCTIONS if item.name == key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._known, *self._lazy)))

    def __len__(self) -> int:
        return len({*self._known, *self._lazy})

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._lazy


def _keys() -> dict[str, tuple[str, str]]:
    return {key: (module, key) for module, functions in LATER.items() for key in functions}


def _names() -> dict[str, tuple[str, str]]:
    return {
        name: (module, key)
        for module, functions in LATER.items()
        for key, names in functions.items()
        for name in names
    }


_EAGER = {function.name: function for family in _FAMILIES for function in family.FUNCTIONS}

FUNCTIONS: Mapping[str, Function] = FunctionRegistry(_EAGER, _keys())
"""All functions, by key."""
SQL_NAMES: Mapping[str, Function] = FunctionRegistry(
    {name: function for function in _EAGER.values() for name in function.sql_names}, _names()
)
"""The functions that SQL calls by name, by that name in upper case."""
