"""Arguments that are passed by name: a dictionary for `:name`, `$name` or `$1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runnel.errors import ArgumentsError, suggest
from runnel.planner.parse.parameters import NamedTypes, parameters_of
from runnel.sqltypes import SqlType

ByName = Mapping[str, Any]
Rows = list[tuple[Any, ...]]


def by_name(sql: str, args: ByName) -> tuple[Any, ...]:
    """The values in the order of the statement's parameters; InterfaceError naming a parameter
    without a value, or a value without a parameter."""
    parameters = parameters_of(sql)
    names = parameters.names
    if parameters.sign == "?":
        raise ArgumentsError(
            "the values of ? are given in order, not as a dictionary",
            hint="pass a tuple or a list, or write :name in the statement",
            position=parameters.position(sql, 0),
        )
    for index, name in enumerate(names):
        if name not in args:
            raise ArgumentsError(
                f"there is no value for the parameter {parameters.shown(index)}",
                hint=suggest(name, [key for key in args if isinstance(key, str)])
                or f'add "{name}" to the dictionary',
                position=parameters.position(sql, index),
            )
    if len(args) > len(names):
        unused = next(key for key in args if key not in names)
        known = ", ".join(parameters.shown(index) for index in range(len(names)))
        raise ArgumentsError(
            f"the statement has no parameter {unused!r}",
            hint=(isinstance(unused, str) and suggest(unused, names))
            or (f"its parameters are {known}" if known else "pass no dictionary"),
        )
    return tuple(args[name] for name in names)


def rows_by_name(items: Sequence[Any]) -> tuple[Rows, tuple[str, ...]]:
    """The values of dictionaries, all in the order of the first one's names, and these names;
    InterfaceError if the names differ."""
    names = tuple(items[0])
    rows: Rows = []
    for number, args in enumerate(items, 1):
        if not isinstance(args, Mapping):
            raise ArgumentsError(
                f"argument list {number} is given as {type(args).__name__}, not as a dictionary",
                hint="the lists before are dictionaries: pass one for each row",
            )
        try:
            rows.append(tuple([args[name] for name in names]))
        except KeyError as error:
            raise ArgumentsError(
                f"there is no value for {error.args[0]!r} in argument list {number}",
                hint="all dictionaries of executemany have the same names",
            ) from None
        if len(args) != len(names):
            unused = next(key for key in args if key not in names)
            raise ArgumentsError(
                f"argument list {number} has a value for {unused!r}, and the first has none",
                hint="all dictionaries of executemany have the same names",
            )
    return rows, names


def rows_in_order(sql: str, rows: Rows, names: Sequence[str]) -> Rows:
    """Rows with values in the order of `names` as rows in the order of the statement's parameters;
    InterfaceError as from `by_name`."""
    order = by_name(sql, {name: index for index, name in enumerate(names)})
    if order == tuple(range(len(names))):
        return rows
    return [tuple([row[index] for index in order]) for row in rows]


def named_types(sql: str, types: tuple[SqlType, ...]) -> tuple[SqlType, ...]:
    """The types of values that were passed by name."""
    return NamedTypes(types) if parameters_of(sql).is_named else types


def check_order(sql: str, types: tuple[SqlType, ...]) -> None:
    """InterfaceError if values were passed in order to a statement with names."""
    if type(types) is NamedTypes or not types:
        return
    parameters = parameters_of(sql)
    if parameters.is_named:
        names = ", ".join(f'"{name}": …' for name in parameters.names)
        raise ArgumentsError(
            f"the value of {parameters.shown(0)} is given by its name",
            hint=f"pass a dictionary: {{{names}}}",
            position=parameters.position(sql, 0),
        )
