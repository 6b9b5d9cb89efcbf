"""The registry of all scalar functions and operators, by the key that `Call.function` carries.

The families that most statements need are imported with this module. A lazy family is imported when
one of its functions is first looked up (`lazy_families`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from runnel.expressions.function import Function
from runnel.expressions.lazy_families import LAZY_FAMILIES, SLOW_FAMILIES, families_with
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
    """Functions by name; the functions of a lazy family are added when one of them is looked up.

    names_of: returns the names of a function in this registry.
    spellings: returns the words that stand for a name in the source of a family; none if the name
      is no name of a function.
    """

    def __init__(
        self,
        names_of: Callable[[Function], tuple[str, ...]],
        spellings: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._names_of = names_of
        self._spellings = spellings
        self._loaded: set[str] = set()
        self._known: dict[str, Function] = {
            name: function
            for family in _FAMILIES
            for function in family.FUNCTIONS
            for name in names_of(function)
        }

    def __getitem__(self, name: str) -> Function:
        found = self._known.get(name)
        if found is not None:
            return found
        for module in families_with(self._spellings(name)):
            self._load(module)
            if name in self._known:
                return self._known[name]
        raise KeyError(name)

    def _load(self, module: str) -> None:
        if module in self._loaded:
            return
        for function in import_module(f"runnel.expressions.{module}").FUNCTIONS:
            loaded = replace(function, is_slow=True) if module in SLOW_FAMILIES else function
            for name in self._names_of(function):
                self._known.setdefault(name, loaded)
        self._loaded.add(module)

    def __iter__(self) -> Iterator[str]:
        for module in LAZY_FAMILIES:
            self._load(module)
        return iter(dict(self._known))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _key_of(function: Function) -> tuple[str, ...]:
    return (function.name,)


def _spelled_key(key: str) -> tuple[str, ...]:
    return (key,) if key.isidentifier() and key.islower() else ()


def _sql_names_of(function: Function) -> tuple[str, ...]:
    return function.sql_names


def _spelled_sql_name(name: str) -> tuple[str, ...]:
    """A function whose SQL name is its key states the name once, in lower case."""
    return (name, name.lower()) if name.isidentifier() and name.isupper() else ()


FUNCTIONS: Mapping[str, Function] = FunctionRegistry(_key_of, _spelled_key)
"""All functions, by key."""
SQL_NAMES: Mapping[str, Function] = FunctionRegistry(_sql_names_of, _spelled_sql_name)
"""The functions that SQL calls by name, by that name in upper case."""
