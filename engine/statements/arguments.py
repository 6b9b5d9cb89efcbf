"""Converts the arguments of `execute` and `executemany` to the types that a plan requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from runnel.errors import ArgumentsError, DataError, Error, ProgrammingError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import evaluate_constant
from runnel.expressions.kernels.values import parameter_type, plain_value
from runnel.expressions.nodes import Cast, Literal
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    NULL,
    TIME,
    VARBINARY,
    VARCHAR,
    SqlType,
    common_type,
)

Rows = list[tuple[Any, ...]]
Arguments = Sequence[Any] | Mapping[str, Any]
"""The values of a statement's parameters: in order, or by name."""

_ONE_TYPE = {bool: BOOLEAN, float: DOUBLE, str: VARCHAR, bytes: VARBINARY, date: DATE, time: TIME}
"""Python types whose values all have one SQL type."""

_HINT = (
    "the values of ? and $1 are given in order, execute(sql, (first, second)), and the values of "
    ":name as a dictionary, execute(sql, {'name': value})"
)
_PLAIN = frozenset(
    (bool, int, float, str, bytes, Decimal, date, datetime, time, timedelta, type(None))
)
"""Python types whose values the engine accepts without conversion."""


def checked(args: Any, number: int | None = None) -> tuple[Any, ...]:
    """One argument list as a tuple; InterfaceError if it isn't a sequence. `number` is the list's
    position in the lists of executemany."""
    kind = type(args)
    if kind is tuple:
        return args  # type: ignore[no-any-return]
    if kind is list:
        return tuple(args)
    if isinstance(args, str | bytes | Mapping) or not isinstance(args, Iterable):
        which = "arguments are" if number is None else f"argument list {number} is"
        raise ArgumentsError(
            f"{which} given as {kind.__name__}, not as a sequence",
            hint=_HINT,
        )
    return tuple(_items(args))


def argument_types(args: tuple[Any, ...]) -> tuple[SqlType, ...]:
    """The types of arguments; the error for a value without a type names the argument."""
    try:
        return tuple(map(parameter_type, args))
    except (DataError, ProgrammingError, RecursionError):
        return tuple(_argument_type(value, number) for number, value in enumerate(args, 1))


def _argument_type(value: Any, number: int) -> SqlType:
    try:
        return parameter_type(value)
    except RecursionError:
        raise ProgrammingError(f"argument {number} is nested too deeply") from None
    except (DataError, ProgrammingError) as error:
        _name_argument(error, number)
        raise


def _name_argument(error: Error, number: int) -> None:
    error.detail = f"in argument {number}" + (f"; {error.detail}" if error.detail else "")


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """The items of the caller's iterable. An exception in it is not an error of the engine."""
    try:
        yield from values
    except Exception as error:
        reason = f"their iterator raised {type(error).__name__}: {error}"
        raise ArgumentsError("the arguments can't be read", detail=reason) from error


def checked_rows(seq_of_args: Iterable[Arguments]) -> tuple[Rows, tuple[str, ...] | None]:
    """The argument lists of executemany, and the names of their values if they are dictionaries;
    InterfaceError if they aren't equally long, or have other names."""
    if isinstance(seq_of_args, str | bytes | Mapping) or not isinstance(seq_of_args, Iterable):
        raise ArgumentsError(
            f"arguments are given as {type(seq_of_args).__name__}, "
            "not as a sequence of argument lists",
            hint="write executemany(sql, [(1, 'a'), (2, 'b')])",
        )
    items = list(_items(seq_of_args))
    if items and isinstance(items[0], Mapping):
        # Loaded on first use: most programs pass arguments in order.
        from runnel.statements.parameters.by_name import rows_by_name

        return rows_by_name(items)
    rows = [checked(args, number) for number, args in enumerate(items, 1)]
    if rows and len(set(map(len, rows))) > 1:
        wanted = len(rows[0])
        number, length = next((i, len(row)) for i, row in enumerate(rows, 1) if len(row) != wanted)
        raise ArgumentsError(
            f"unexpected parameter count: expected {wanted}, got {length}",
            detail=f"argument list {number} differs in length from the first",
        )
    return rows, None


def column_type(values: Sequence[Any], number: int) -> SqlType:
    """The common type of one parameter's values; ProgrammingError if there is none."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    if not kinds:
        return NULL
    if len(kinds) == 1:
        kind = next(iter(kinds))
        if kind in _ONE_TYPE:
            return _ONE_TYPE[kind]
        if kind is int:
            given = [value for value in values if value is not None] if None in values else values
            if min(given) >= -(2**63) and max(given) < 2**63:
                return BIGINT
    result = NULL
    for found in dict.fromkeys(_argument_type(value, number) for value in values):
        common = common_type(result, found)
        if common is None:
            raise ProgrammingError(
                f"the values of parameter {number} are of types {result} and {found}, "
                "which have none in common",
                hint="give all values of a parameter in one type",
            )
        result = common
    return result


def converted(
    args: tuple[Any, ...], types: tuple[SqlType, ...], required: tuple[SqlType, ...], zone: str
) -> tuple[Any, ...]:
    """Arguments of the types `types` as values of the types `required`; DataError naming the
    argument that doesn't fit."""
    if not _PLAIN.issuperset(map(type, args)):
        args = tuple(None if value is None else plain_value(value) for value in args)
    if types == required:
        return args
    return tuple(
        value if value is None or have == want else _cast(value, have, want, number, zone)
        for number, (value, have, want) in enumerate(zip(args, types, required, strict=True), 1)
    )


def _cast(value: Any, kind: SqlType, required: SqlType, number: int, zone: str) -> Any:
    try:
        literal = Literal(value=value, type=kind)
        return evaluate_constant(
            Cast(operand=literal, type=required, implicit=True), EvaluationContext(zone=zone)
        )
    except DataError as error:
        _name_argument(error, number)
        raise
