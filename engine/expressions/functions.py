"""All scalar functions and operators, by the key that `Call.function` carries.

The families that most statements need are imported with this module. The others are imported when
one of their functions is first asked for, so that a process that needs none doesn't pay for them;
`later.py` says what is where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from runnel.expressions.function import Function
from runnel.expressions.later import LATER
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


class Registry(Mapping[str, Function]):
    """Functions by name. `places` says for each further name in which module it is, and under which
    key."""

    def __init__(
        self, known: Mapping[str, Function], places: Mapping[str, tuple[str, str]]
    ) -> None:
        self._known = dict(known)
        self._places = places

    def __getitem__(self, name: str) -> Function:
        found = self._known.get(name)
        if found is None:
            module, key = self._places[name]
            family = import_module(f"runnel.expressions.{module}")
            found = self._known[name] = next(item for item in family.FUNCTIONS if item.name == key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._known, *self._places)))

    def __len__(self) -> int:
        return len({*self._known, *self._places})

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._places


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

FUNCTIONS: Mapping[str, Function] = Registry(_EAGER, _keys())
SQL_NAMES: Mapping[str, Function] = Registry(
    {name: function for function in _EAGER.values() for name in function.sql_names}, _names()
)
"""The functions that SQL calls by name, by that name in upper case."""
