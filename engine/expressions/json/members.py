"""Access to the members of JSON: -> and ->>, JSON_EXTRACT, lengths, names and kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import convert
from runnel.expressions.function import Bound, Function, Kernel, always_may_fail
from runnel.expressions.json import text as json_text
from runnel.expressions.json.functions import parsed, plain
from runnel.expressions.json.path import compile_path
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BIGINT, BOOLEAN, JSON, VARCHAR, Kind, SqlType, array, row

_NOTHING = object()


def _bind_arrow(result: SqlType) -> Callable[..., Bound]:
    """Returns the `bind` of an access by keys. A key is a name, a subscript from 0 (negative from
    the end), or a path that begins with `$`. A literal path with a wildcard as last key makes a
    list of all values that it leads to.
    """

    def bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        shown = {"json_arrow": "'->' operator", "json_arrow_text": "'->>' operator"}.get(
            name, name.upper()
        )
        if len(arguments) < 2:
            raise ProgrammingError(
                f"{shown} needs a JSON and a name, a subscript or a path", position=position
            )
        document, *keys = arguments
        if document.type.kind is Kind.VARCHAR and isinstance(document, Literal):
            document = convert(document, JSON)
        if document.type.kind not in (Kind.JSON, Kind.NULL, Kind.VARCHAR):
            raise ProgrammingError(
                f"cannot apply {shown} to {document.type}",
                hint="CAST it to JSON",
                position=position,
            )
        bound = []
        for key in keys:
            if key.type.is_integer:
                bound.append(convert(key, BIGINT))
            elif key.type.kind in (Kind.VARCHAR, Kind.NULL):
                bound.append(convert(key, VARCHAR))
            else:
                raise ProgrammingError(
                    f"cannot apply {shown} to {key.type}", position=key.position or position
                )
        last = bound[-1]
        is_list = isinstance(last, Literal) and _has_wildcard(last.value)
        return (
            document if document.type.kind is not Kind.NULL else convert(document, JSON),
            *bound,
        ), array(result) if is_list else result

    return bind


def _has_wildcard(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("$") and _WILDCARD.search(key) is not None


_NUMBER = re.compile(r"-?[0-9]+")
_WILDCARD = re.compile(r"\[\s*\*\s*\]|\.\*")


def _reached(document: str, keys: Sequence[Any], is_path: bool) -> Any:
    """The value that the keys lead to, one after another; _NOTHING if a key leads nowhere."""
    value = parsed(document)
    for key in keys:
        if isinstance(key, int):
            inside = isinstance(value, list) and -len(value) <= key < len(value)
            value = value[key] if inside else _NOTHING
        elif is_path and key.startswith("$"):
            if _has_wildcard(key):
                raise DataError(
                    f"the path {key} may lead to several values",
                    hint="write it as a literal, as the last key: the result is a list",
                )
            found = compile_path(key)(value)
            value = found[0] if found else _NOTHING
        elif isinstance(value, list) and _NUMBER.fullmatch(key):
            index = int(key)
            value = value[index] if -len(value) <= index < len(value) else _NOTHING
        else:
            value = value.get(key, _NOTHING) if isinstance(value, dict) else _NOTHING
        if value is _NOTHING:
            return value
    return value


def _arrow(document: str, *keys: Any) -> str | None:
    value = _reached(document, keys, True)
    return None if value is _NOTHING else json_text.write(value)


def _arrow_text(document: str, *keys: Any) -> str | None:
    value = _reached(document, keys, True)
    return None if value is _NOTHING else plain(value)


def _arrows(document: str, *keys: Any) -> list[str]:
    return [json_text.write(value) for value in _all_reached(document, keys)]


def _arrows_text(document: str, *keys: Any) -> list[str | None]:
    return [plain(value) for value in _all_reached(document, keys)]


def _all_reached(document: str, keys: Sequence[Any]) -> list[Any]:
    """The values that keys lead to of which the last is a path with a wildcard."""
    value = _reached(document, keys[:-1], True)
    return [] if value is _NOTHING else list(compile_path(keys[-1])(value))


def _accessing(one: Callable[..., Any], all_: Callable[..., Any]) -> Callable[[Call], Kernel]:
    """Compiles an access: to one value, or to all of a path with a wildcard."""
    return lambda call: per_value(all_ if call.type.kind is Kind.ARRAY else one)(call)


def _length(document: str, *path: str) -> int | None:
    value = _reached(document, path, True)
    if value is _NOTHING:
        return None
    return len(value) if isinstance(value, list) else 0


def _keys(document: str) -> list[str]:
    value = parsed(document)
    if not isinstance(value, dict):
        raise DataError("JSON_KEYS needs an object")
    return list(value)


def _entries(document: str) -> list[dict[str, Any]]:
    """The members of an object with their names, or the elements of an array with their indexes; a
    scalar is one entry without a name."""
    return [
        {"key": key, "value": json_text.write(value)} for key, value in _members(parsed(document))
    ]


def _entries_text(document: str) -> list[dict[str, Any]]:
    return [{"key": key, "value": plain(value)} for key, value in _members(parsed(document))]


def _members(value: Any) -> list[tuple[str | None, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [(str(index), item) for index, item in enumerate(value)]
    return [(None, value)]


def _elements(document: str) -> list[Any]:
    value = parsed(document)
    if not isinstance(value, list):
        kind = _TYPE_NAMES.get(type(value), "number")
        raise DataError(
            f"JSON_ARRAY_ELEMENTS needs a JSON array; this value is of type {kind}",
            hint="JSON_EACH reads the members of an object",
        )
    return value


def _json_elements(document: str) -> list[str]:
    return [json_text.write(item) for item in _elements(document)]


def _text_elements(document: str) -> list[str | None]:
    return [plain(item) for item in _elements(document)]


_TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def _type(document: str, *path: str) -> str | None:
    value = _reached(document, path, True)
    return None if value is _NOTHING else _TYPE_NAMES.get(type(value), "number")


def _contains(document: str, contained: str) -> bool:
    return _within(parsed(document), parsed(contained))


def _within(whole: Any, contained: Any) -> bool:
    """Whether a value contains another, as PostgreSQL's @>: objects by their names, arrays as
    sets.
    """
    if isinstance(contained, dict):
        return isinstance(whole, dict) and all(
            name in whole and _within(whole[name], item) for name, item in contained.items()
        )
    if isinstance(contained, list):
        return isinstance(whole, list) and all(
            any(_within(item, expected) for item in whole) for expected in contained
        )
    return whole is contained or (
        type(whole) is not bool and type(contained) is not bool and bool(whole == contained)
    )


def _operator(name: str, result: SqlType, compiled: Callable[[Call], Kernel]) -> Function:
    return Function(
        name=name,
        arguments="x JSON, key VARCHAR or BIGINT",
        result=str(result),
        bind=_bind_arrow(result),
        compile=compiled,
        can_fail=always_may_fail,
        family="JSON",
    )


def _simple(
    name: str,
    arguments: str,
    result: SqlType,
    bind: Any,
    of_row: Callable[..., Any],
    sql_names: tuple[str, ...] = (),
    of_rows: Callable[..., Any] | None = None,
) -> Function:
    return named(
        name,
        arguments,
        str(result),
        bind,
        per_value(of_row) if of_rows is None else _accessing(of_row, of_rows),
        sql_names=sql_names,
        can_fail=always_may_fail,
        family="JSON",
    )


FUNCTIONS = (
    _operator("json_arrow", JSON, _accessing(_arrow, _arrows)),
    _operator("json_arrow_text", VARCHAR, _accessing(_arrow_text, _arrows_text)),
    _simple(
        "json_extract",
        "x JSON, key VARCHAR or BIGINT, …",
        JSON,
        _bind_arrow(JSON),
        _arrow,
        ("JSON_EXTRACT_PATH",),
        _arrows,
    ),
    _simple(
        "json_extract_string",
        "x JSON, key VARCHAR or BIGINT, …",
        VARCHAR,
        _bind_arrow(VARCHAR),
        _arrow_text,
        ("JSON_EXTRACT_PATH_TEXT",),
        _arrows_text,
    ),
    _simple(
        "json_array_length",
        "x JSON [, path VARCHAR]",
        BIGINT,
        signature(JSON, VARCHAR, result=BIGINT, optional=1),
        _length,
    ),
    _simple("json_keys", "x JSON", array(VARCHAR), signature(JSON, result=array(VARCHAR)), _keys),
    *(
        _simple(name, "x JSON", kind, signature(JSON, result=kind), of_row)
        for name, kind, of_row in (
            ("json_entries", array(row(("key", VARCHAR), ("value", JSON))), _entries),
            ("json_entries_text", array(row(("key", VARCHAR), ("value", VARCHAR))), _entries_text),
            ("json_elements", array(JSON), _json_elements),
            ("json_elements_text", array(VARCHAR), _text_elements),
        )
    ),
    _simple(
        "json_type",
        "x JSON [, path VARCHAR]",
        VARCHAR,
        signature(JSON, VARCHAR, result=VARCHAR, optional=1),
        _type,
        ("JSON_TYPEOF",),
    ),
    _simple(
        "json_contains",
        "x JSON, part JSON",
        BOOLEAN,
        signature(JSON, JSON, result=BOOLEAN),
        _contains,
    ),
    named(
        "json_valid",
        "x VARCHAR",
        "BOOLEAN",
        signature(VARCHAR, result=BOOLEAN),
        per_value(json_text.is_json),
        family="JSON",
    ),
)
