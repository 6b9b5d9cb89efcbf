"""Changes of JSON values: || and -, JSONB_SET, JSONB_INSERT, JSONB_DELETE_PATH; and the values that
a path finds. As in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runnel.errors import DataError, Position
from runnel.expressions.coercion import cast, check_count, convert
from runnel.expressions.function import Bound, Function, always_may_fail
from runnel.expressions.json import text as json_text
from runnel.expressions.json.functions import parsed
from runnel.expressions.json.path import compile_path
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Expression
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BIGINT, BOOLEAN, JSON, VARCHAR, Kind, SqlType, array

_PATH = array(VARCHAR)


def _joined(left: str, right: str) -> str:
    """Two objects become one, in which members of the second replace members of the same name.
    Otherwise the result is an array of the elements of both; a value that is no array counts as
    one element."""
    first, second = parsed(left), parsed(right)
    if isinstance(first, dict) and isinstance(second, dict):
        return json_text.write({**first, **second})
    return json_text.write([*_elements(first), *_elements(second)])


def _elements(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _without(document: str, key: Any) -> str:
    """Without the member or elements of a name or of several names, or the element of a
    subscript."""
    value = parsed(document)
    if not isinstance(value, (dict, list)):
        raise DataError("cannot delete from a JSON value that is no object or array")
    if isinstance(key, int):
        if isinstance(value, dict):
            raise DataError("cannot delete from a JSON object by a subscript")
        at = key + len(value) if key < 0 else key
        return json_text.write([item for index, item in enumerate(value) if index != at])
    names = key if isinstance(key, list) else [key]
    if isinstance(value, dict):
        return json_text.write({name: item for name, item in value.items() if name not in names})
    return json_text.write(
        [item for item in value if not (isinstance(item, str) and item in names)]
    )


def _subscript(step: str) -> int:
    try:
        return int(step)
    except ValueError:
        raise DataError(f"'{step}' is no subscript of a JSON array") from None


Change = Callable[[Any, str], Any]


def _changed(value: Any, path: Sequence[str], change: Change) -> Any:
    """A copy of a value in which `change` was applied to the object or array that has the last
    step; the value itself if the path leads nowhere."""
    if not path:
        return value
    step, *rest = path
    if not rest:
        return change(value, step) if isinstance(value, (dict, list)) else value
    if isinstance(value, dict):
        if step not in value:
            return value
        return {**value, step: _changed(value[step], rest, change)}
    if not isinstance(value, list):
        return value
    at = _subscript(step)
    if not -len(value) <= at < len(value):
        return value
    copy = list(value)
    copy[at] = _changed(copy[at], rest, change)
    return copy


def _set(document: str, path: list[str], new: str, creates: bool = True) -> str:
    item = parsed(new)

    def change(holder: Any, step: str) -> Any:
        if isinstance(holder, dict):
            return {**holder, step: item} if creates or step in holder else holder
        at = _subscript(step)
        if -len(holder) <= at < len(holder):
            copy = list(holder)
            copy[at] = item
            return copy
        if not creates:
            return holder
        return [item, *holder] if at < 0 else [*holder, item]

    return json_text.write(_changed(parsed(document), path, change))


def _insert(document: str, path: list[str], new: str, after: bool = False) -> str:
    item = parsed(new)

    def change(holder: Any, step: str) -> Any:
        if isinstance(holder, dict):
            if step in holder:
                raise DataError(
                    f"the JSON object has a member '{step}' already", hint="use JSONB_SET"
                )
            return {**holder, step: item}
        at = _subscript(step)
        place = at + len(holder) if at < 0 else at
        place = max(place + after, 0) if place >= 0 else 0
        return [*holder[:place], item, *holder[place:]]

    return json_text.write(_changed(parsed(document), path, change))


def _delete_path(document: str, path: list[str]) -> str:
    def change(holder: Any, step: str) -> Any:
        if isinstance(holder, dict):
            return {name: item for name, item in holder.items() if name != step}
        at = _subscript(step)
        at = at + len(holder) if at < 0 else at
        return [item for index, item in enumerate(holder) if index != at]

    return json_text.write(_changed(parsed(document), path, change))


def _found(document: str, path: str) -> list[str]:
    return [json_text.write(item) for item in compile_path(path)(parsed(document))]


def _found_array(document: str, path: str) -> str:
    return json_text.write(compile_path(path)(parsed(document)))


def _found_first(document: str, path: str) -> str | None:
    found = compile_path(path)(parsed(document))
    return json_text.write(found[0]) if found else None


def _bind_delete(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count("-", arguments, 2, position)
    document, key = arguments
    if key.type.is_integer:
        return (document, convert(key, BIGINT)), JSON
    kinds: SqlType = _PATH if key.type.kind is Kind.ARRAY else VARCHAR
    return signature(JSON, kinds, result=JSON)(name, arguments, position)


def _bind_path(*kinds: SqlType, optional: int = 0) -> Any:
    """The `bind` of a function of a document and a path, such as '{a,0}' or ARRAY['a', '0']."""
    bind = signature(JSON, _PATH, *kinds, result=JSON, optional=optional)

    def with_path(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        items = list(arguments)
        if len(items) > 1 and items[1].type.kind in (Kind.VARCHAR, Kind.NULL):
            items[1] = cast(items[1], _PATH, position)
        return bind(name, items, position)

    return with_path


def _function(
    name: str,
    arguments: str,
    result: SqlType,
    bind: Any,
    of_row: Callable[..., Any],
    sql_names: tuple[str, ...] = (),
) -> Function:
    return named(
        name,
        arguments,
        str(result),
        bind,
        per_value(of_row),
        sql_names=sql_names,
        can_fail=always_may_fail,
        family="JSON",
    )


_BY_PATH = signature(JSON, VARCHAR, result=JSON)
_LISTED = signature(JSON, VARCHAR, result=array(JSON))
FUNCTIONS = (
    _function("json_concat", "x JSON, y JSON", JSON, signature(JSON, JSON, result=JSON), _joined),
    _function("json_delete", "x JSON, key VARCHAR, BIGINT or ARRAY", JSON, _bind_delete, _without),
    _function(
        "jsonb_set",
        "x JSON, path VARCHAR[], new JSON [, create BOOLEAN]",
        JSON,
        _bind_path(JSON, BOOLEAN, optional=1),
        _set,
    ),
    _function(
        "jsonb_insert",
        "x JSON, path VARCHAR[], new JSON [, after BOOLEAN]",
        JSON,
        _bind_path(JSON, BOOLEAN, optional=1),
        _insert,
    ),
    _function("jsonb_delete_path", "x JSON, path VARCHAR[]", JSON, _bind_path(), _delete_path),
    _function("json_found", "x JSON, path VARCHAR", array(JSON), _LISTED, _found),
    _function("jsonb_path_query_array", "x JSON, path VARCHAR", JSON, _BY_PATH, _found_array),
    _function("jsonb_path_query_first", "x JSON, path VARCHAR", JSON, _BY_PATH, _found_first),
)
