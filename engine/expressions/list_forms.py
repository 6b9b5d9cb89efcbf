"""DuckDB's forms of functions with a list in the place of one value: REGEXP_EXTRACT(s, pattern,
['a', 'b']) and DATE_PART(['year', 'month'], x) return a ROW with these fields, JSON_EXTRACT(j,
['$.a', '$.b']) an array. Each is a composition of the calls with one value. Loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runnel.errors import Position, ProgrammingError
from runnel.expressions.functions import FUNCTIONS, SQL_NAMES
from runnel.expressions.nodes import Call, Case, Expression, Literal, elements
from runnel.sqltypes import BIGINT, BOOLEAN, Kind, row

List = Sequence[Expression]


def list_form(name: str, arguments: List, position: Position | None) -> Expression | None:
    """A call in one of these forms; None if no argument is a list."""
    at = _LISTS[name]
    if len(arguments) <= at or arguments[at].type.kind is not Kind.ARRAY:
        return None
    values = elements(arguments[at])
    if not values:
        raise ProgrammingError(
            f"the list of {name} must be written out, with at least one element",
            position=arguments[at].position or position,
        )
    return _CALLS[name](name, list(arguments), values, position)


def _called(name: str, arguments: List, position: Position | None) -> Expression:
    function = FUNCTIONS.get(name) or SQL_NAMES[name]
    bound, result = function.bind(function.name, arguments, position)
    return Call(function=function.name, arguments=bound, type=result, position=position)


def _unless_null(subject: Expression, value: Expression) -> Expression:
    """The value, or NULL where the subject is NULL."""
    test = Call(function="is_null", arguments=(subject,), type=BOOLEAN)
    nothing = Literal(value=None, type=value.type)
    return Case(conditions=(test,), results=(nothing,), otherwise=value, type=value.type)


def _fields(
    name: str, names: List, values: List, subject: Expression, position: Position | None
) -> Expression:
    """A ROW of the values, with the texts of the list as the names of its fields."""
    fields: list[str] = []
    for item in names:
        text = item.value if isinstance(item, Literal) else None
        if not isinstance(text, str) or text.lower() in map(str.lower, fields):
            raise ProgrammingError(
                f"the list of {name} must have different text literals",
                position=item.position or position,
            )
        fields.append(text)
    kinds = zip(fields, (item.type for item in values), strict=True)
    made = Call(function="row", arguments=tuple(values), type=row(*kinds), position=position)
    return _unless_null(subject, made)


def _groups(name: str, arguments: List, names: List, position: Position | None) -> Expression:
    text, pattern, _, *flags = arguments
    values = [
        _called(name, [text, pattern, Literal(value=i, type=BIGINT), *flags], position)
        for i in range(1, len(names) + 1)
    ]
    return _fields(name, names, values, text, position)


def _parts(name: str, arguments: List, names: List, position: Position | None) -> Expression:
    values = [_called(name, [item, *arguments[1:]], position) for item in names]
    return _fields(name, names, values, arguments[-1], position)


def _members(name: str, arguments: List, paths: List, position: Position | None) -> Expression:
    values = [_called(name, [arguments[0], path], position) for path in paths]
    return _unless_null(arguments[0], _called("array", values, position))


_LISTS = {"REGEXP_EXTRACT": 2, "DATE_PART": 0, "JSON_EXTRACT": 1, "JSON_EXTRACT_STRING": 1}
"""The functions, and the index of the argument that may be a list."""

_CALLS: dict[str, Callable[[str, List, List, Position | None], Expression]] = {
    "REGEXP_EXTRACT": _groups,
    "DATE_PART": _parts,
    "JSON_EXTRACT": _members,
    "JSON_EXTRACT_STRING": _members,
}
