"""Binding of the functions that make a ROW, or change its fields: {…}, STRUCT_PACK, STRUCT_INSERT,
STRUCT_UPDATE, STRUCT_CONCAT and STRUCT_KEYS. Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.sqltypes import VARCHAR, Kind, row

Bind = Callable[[Any], Expression]
Fields = dict[str, Expression]


def literal(bind: Bind, tree: Any, position: Position | None) -> Expression:
    """Binds `{a: 1, 'b': 2}`: a ROW with named fields."""
    return row_of(_named(bind, "STRUCT_PACK", tree.expressions, position), position)


def row_call(
    bind: Bind, name: str, arguments: Sequence[Any], position: Position | None
) -> Expression:
    """Binds a call of one of the functions of the module."""
    if name == "STRUCT_PACK":
        return row_of(_named(bind, name, arguments, position), position)
    if not arguments:
        raise ProgrammingError(f"{name} expects at least 1 argument, not 0", position=position)
    if name == "STRUCT_KEYS":
        if len(arguments) != 1:
            raise ProgrammingError(
                f"{name} expects 1 argument, not {len(arguments)}", position=position
            )
        names = _fields_of(bind(arguments[0]), name, 1, position)
        return build.call("array", [Literal(value=key, type=VARCHAR) for key in names], position)
    fields = _fields_of(bind(arguments[0]), name, 1, position)
    if name == "STRUCT_CONCAT":
        for index, argument in enumerate(arguments[1:], 2):
            added = _fields_of(bind(argument), name, index, position)
            _check_new(fields, added, position)
            fields |= added
        return row_of(fields, position)
    changes = _named(bind, name, arguments[1:], position)
    if name == "STRUCT_INSERT":
        _check_new(fields, changes, position)
    written = {key.lower(): key for key in fields}
    for key, value in changes.items():
        fields[written.get(key.lower(), key)] = value
    return row_of(fields, position)


def _check_new(fields: Fields, added: Fields, position: Position | None) -> None:
    present = {name.lower() for name in fields}
    for name in added:
        if name.lower() in present:
            raise ProgrammingError(
                f'the ROW already has a field "{name}"',
                hint="use STRUCT_UPDATE to change a field",
                position=position,
            )


def _fields_of(operand: Expression, name: str, index: int, position: Position | None) -> Fields:
    """The fields of a ROW."""
    if operand.type.kind is not Kind.ROW:
        raise ProgrammingError(
            f"argument {index} of {name} must be a ROW, not {operand.type}",
            position=operand.position or position,
        )
    return {
        field: build.call("field", [operand, Literal(value=field, type=VARCHAR)], position)
        for field, _ in operand.type.fields
    }


def _named(bind: Bind, function: str, items: Sequence[Any], position: Position | None) -> Fields:
    """The values of arguments with names."""
    fields: Fields = {}
    for item in items:
        if not isinstance(item, (exp.PropertyEQ, exp.Kwarg)):
            raise ProgrammingError(
                f"an argument of {function} has no name",
                hint=f"write {function}({'' if function == 'STRUCT_PACK' else 'row, '}"
                "name := value)",
                position=position,
            )
        if not isinstance(item.this, (exp.Identifier, exp.Var)) or not item.this.name:
            raise ProgrammingError(
                "the name of a field must be a name or a text",
                hint="for keys of other types write MAP {key: value}",
                position=position,
            )
        if item.this.name.lower() in [name.lower() for name in fields]:
            raise ProgrammingError(f'field "{item.this.name}" is named twice', position=position)
        fields[item.this.name] = bind(item.expression)
    return fields


def row_of(fields: Fields, position: Position | None) -> Expression:
    """A ROW of values by the names of its fields; ProgrammingError if there are none."""
    if not fields:
        raise ProgrammingError(
            "a ROW needs a field",
            hint="write {name: value}, or MAP {} for a map",
            position=position,
        )
    kind = row(*((name, value.type) for name, value in fields.items()))
    return Call(function="row", arguments=tuple(fields.values()), type=kind, position=position)


__all__ = ["literal", "row_call", "row_of"]
