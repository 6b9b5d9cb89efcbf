"""MAP: construction, keys, values, entries.

The keys of a map are distinct: a repeated key is refused, except that MAP_CONCAT uses the last
value. A NULL key is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, indexes, validity
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import coerce, convert
from runnel.expressions.function import (
    Bound,
    Function,
    Kernel,
    always_may_fail,
    never_fails,
    over_arrays,
    over_first,
)
from runnel.expressions.kernels.sameness import list_items, list_lengths
from runnel.expressions.nested.construct import interleaved
from runnel.expressions.nested.list_values import codes_of
from runnel.expressions.nested.lists import contains, joined, made
from runnel.expressions.nodes import Call, Expression
from runnel.sqltypes import (
    BOOLEAN,
    INTEGER,
    NULL,
    VARCHAR,
    Kind,
    SqlType,
    array,
    common_type,
    map_of,
    row,
    to_arrow,
)

_EMPTY = map_of(VARCHAR, NULL)
"""The type of an empty map without a known type; VARCHAR as Arrow's maps have no keys of the null
type.
"""


def _map_type(key: SqlType, value: SqlType, position: Position | None) -> SqlType:
    if key.is_nested:
        raise ProgrammingError(f"a key of a MAP can't be {key}", position=position)
    return map_of(key, value)


def _keyed(keys: Sequence[Expression]) -> list[Expression]:
    """NULL keys as VARCHAR, as Arrow's maps have no keys of the null type."""
    return [convert(item, VARCHAR) if item.type.kind is Kind.NULL else item for item in keys]


def _bind_pairs(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """MAP[k, v, …]"""
    if len(arguments) % 2:
        raise ProgrammingError("MAP[…] needs pairs of a key and a value", position=position)
    if not arguments:
        return (), _EMPTY
    keys, values = (
        _keyed(coerce(arguments[0::2], "MAP", position)),
        coerce(arguments[1::2], "MAP", position),
    )
    bound = tuple(item for pair in zip(keys, values, strict=True) for item in pair)
    return bound, _map_type(keys[0].type, values[0].type, position)


def _bind_arrays(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """MAP(keys, values)"""
    if not arguments:
        return (), _EMPTY
    if len(arguments) != 2:
        raise ProgrammingError(
            f"MAP needs an array of keys and an array of values, not {len(arguments)} arguments",
            position=position,
        )
    bound = [
        convert(item, array(NULL)) if item.type.kind is Kind.NULL else item for item in arguments
    ]
    if bound[0].type == array(NULL):
        bound[0] = convert(bound[0], array(VARCHAR))
    for item in bound:
        if item.type.kind is not Kind.ARRAY:
            raise ProgrammingError(
                f"MAP needs arrays, not {item.type}",
                hint="write MAP[key, value]",
                position=item.position,
            )
    assert bound[0].type.element is not None and bound[1].type.element is not None
    return tuple(bound), _map_type(bound[0].type.element, bound[1].type.element, position)


# For the maps {a: 1, b: 2} and {a: 3, a: 4}:
#     keys       [a, b, a, a]
#     owners     [0, 0, 1, 1]  for each entry, the index of its map
#     codes      [1, 2, 1, 1]  a number for each distinct key
#     marks      [1, 2, 4, 4]  owner * (largest code + 1) + code: equal for equal keys of one map
#     backwards  [3, 2, 0]     the first index of each distinct mark in reversed order, that is:
#     last       [0, 1, 3]     the last index of each distinct mark, sorted
#     result     {a: 1, b: 2}, {a: 4}
def _put_together(
    keys: pa.Array,
    values: pa.Array,
    lengths: np.ndarray,
    sql_type: SqlType,
    valid: Any,
    *,
    last_stays: bool = False,
) -> pa.Array:
    """A map column of flat entries.

    keys, values: the entries of all maps, concatenated.
    lengths: the number of entries of each map.
    valid: which maps aren't NULL; None if no map is.
    last_stays: whether the last of equal keys is used; if false, equal keys are a DataError.
    """
    if keys.null_count:
        raise DataError("a key of a MAP is NULL")
    owners = np.repeat(np.arange(len(lengths)), lengths)
    codes = codes_of(keys)
    marks = owners * (int(codes.max(initial=0)) + 1) + codes
    _, backwards = np.unique(marks[::-1], return_index=True)
    if len(backwards) < len(marks):
        if not last_stays:
            raise _duplicate(keys, marks)
        last = np.sort(len(marks) - 1 - backwards)
        keys, values = keys.take(indexes(last)), values.take(indexes(last))
        lengths = np.bincount(owners[last], minlength=len(lengths))
    arrow = to_arrow(sql_type)
    entries = pa.StructArray.from_arrays([keys, values], fields=[arrow.key_field, arrow.item_field])
    return made(entries, lengths, arrow, valid)


def _duplicate(keys: pa.Array, marks: np.ndarray) -> DataError:
    """The error for the first entry whose key occurs before it in the same map."""
    order = np.argsort(marks, kind="stable")
    second = order[1:][marks[order[1:]] == marks[order[:-1]]].min()
    return DataError(
        f"a MAP has the key {keys[int(second)].as_py()!r} twice",
        hint="MAP_CONCAT uses the last of equal keys",
    )


def _pairs(call: Call) -> Kernel:
    if not call.arguments:
        empty = _put_together(
            pa.nulls(0, pa.string()), pa.nulls(0), np.zeros(1, np.int64), call.type, None
        )[0]
        return lambda: empty

    def run(*columns: pa.Array) -> pa.Array:
        keys, values = interleaved(columns[0::2]), interleaved(columns[1::2])
        lengths = np.full(len(columns[0]), len(columns) // 2)
        return _put_together(keys, values, lengths, call.type, None)

    return over_arrays(run)


def _arrays(call: Call) -> Kernel:
    if not call.arguments:
        return _pairs(call)

    def run(keys: pa.Array, values: pa.Array) -> pa.Array:
        masks = [mask for mask in (validity(keys), validity(values)) if mask is not None]
        valid = np.logical_and.reduce(masks) if masks else None
        first, second = list_lengths(keys), list_lengths(values)
        if valid is not None:
            nulls = pa.nulls(1, keys.type)[0], pa.nulls(1, values.type)[0]
            flags = from_numbers(valid.astype(np.int8), pa.int8()).cast(pa.bool_())
            keys, values = (
                pc.if_else(flags, keys, nulls[0]),
                pc.if_else(flags, values, nulls[1]),
            )
            first, second = first * valid, second * valid
        if (first != second).any():
            raise DataError("MAP has a different number of keys and values")
        return _put_together(keys.flatten(), values.flatten(), first, call.type, valid)

    return over_arrays(run)


def _map_argument(
    name: str, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    if len(arguments) < 1:
        raise ProgrammingError(
            f"{name.upper()} expects at least 1 argument, not 0", position=position
        )
    argument = arguments[0]
    if argument.type.kind is Kind.NULL:
        return convert(argument, _EMPTY)
    if argument.type.kind is not Kind.MAP:
        raise ProgrammingError(
            f"argument 1 of {name.upper()} must be a MAP, not {argument.type}",
            position=argument.position or position,
        )
    return argument


def _bind_part(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """MAP_KEYS, MAP_VALUES, MAP_ENTRIES and MAP_SIZE."""
    argument = _map_argument(name, arguments, position)
    if len(arguments) != 1:
        raise ProgrammingError(
            f"{name.upper()} expects 1 argument, not {len(arguments)}", position=position
        )
    key, value = argument.type.key, argument.type.element
    assert key is not None and value is not None
    results = {
        "map_keys": array(key),
        "map_values": array(value),
        "map_entries": array(row(("key", key), ("value", value))),
        "map_size": INTEGER,
    }
    return (argument,), results[name]


def _part(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(column: pa.Array) -> pa.Array:
        lengths, valid = list_lengths(column), validity(column)
        if call.function == "map_size":
            return from_numbers(lengths.astype(np.int32), pa.int32(), valid)
        entries = list_items(column)
        if call.function == "map_entries":
            items = pa.StructArray.from_arrays(entries.flatten(), fields=list(arrow.value_type))
        else:
            items = entries.flatten()[0 if call.function == "map_keys" else 1]
        return made(items, lengths, arrow, valid)

    return over_first(run)


def _bind_contains(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    argument = _map_argument(name, arguments, position)
    if len(arguments) != 2:
        raise ProgrammingError(
            f"{name.upper()} expects 2 arguments, not {len(arguments)}", position=position
        )
    assert argument.type.key is not None and argument.type.element is not None
    key = common_type(argument.type.key, arguments[1].type)
    if key is None:
        raise ProgrammingError(
            f"{arguments[1].type} is not a key type of {argument.type}",
            position=arguments[1].position or position,
        )
    return (
        convert(argument, map_of(key, argument.type.element)),
        convert(arguments[1], key),
    ), BOOLEAN


def _contains(call: Call) -> Kernel:
    def run(column: pa.Array, key: pa.Array) -> pa.Array:
        keys = made(
            list_items(column).flatten()[0],
            list_lengths(column),
            pa.list_(column.type.key_type),
            validity(column),
        )
        return contains(keys, key)

    return over_arrays(run)


def _bind_concat(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    bound = [_map_argument(name, [item], position) for item in arguments]
    if not bound:
        raise ProgrammingError("MAP_CONCAT expects at least 1 argument, not 0", position=position)
    items = tuple(coerce(bound, "MAP_CONCAT", position))
    return items, items[0].type


def _concat(call: Call) -> Kernel:
    def run(*columns: pa.Array) -> pa.Array:
        entry = pa.list_(
            pa.struct([("key", columns[0].type.key_type), ("value", columns[0].type.item_type)])
        )
        lists = joined([column.view(entry) for column in columns], entry)
        keys, values = lists.flatten().flatten()
        return _put_together(
            keys, values, list_lengths(lists), call.type, validity(lists), last_stays=True
        )

    return over_arrays(run)


def _bind_entries(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    kind = arguments[0].type if len(arguments) == 1 else NULL
    element = kind.element if kind.kind is Kind.ARRAY else None
    if element is None or element.kind is not Kind.ROW or len(element.fields) != 2:
        raise ProgrammingError(
            "MAP_FROM_ENTRIES needs an array of rows of a key and a value", position=position
        )
    if element.fields[0][1].kind is Kind.NULL:
        return tuple(arguments), _EMPTY
    return tuple(arguments), _map_type(element.fields[0][1], element.fields[1][1], position)


def _from_entries(call: Call) -> Kernel:
    def run(column: pa.Array) -> pa.Array:
        entries = column.flatten()
        if entries.null_count:
            raise DataError("an entry of a MAP is NULL")
        keys, values = entries.flatten()
        return _put_together(keys, values, list_lengths(column), call.type, validity(column))

    return over_first(run)


def _function(
    name: str,
    arguments: str,
    result: str,
    bind: Any,
    compile_call: Any,
    names: tuple[str, ...],
    fails: bool,
) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=compile_call,
        sql_names=names,
        can_fail=always_may_fail if fails else never_fails,
        family="map",
    )


FUNCTIONS = (
    _function("map_of", "[key, value, …]", "MAP", _bind_pairs, _pairs, (), True),
    _function("map", "keys ARRAY, values ARRAY", "MAP", _bind_arrays, _arrays, ("MAP",), True),
    _function(
        "map_from_entries",
        "x ARRAY of ROW(key, value)",
        "MAP",
        _bind_entries,
        _from_entries,
        ("MAP_FROM_ENTRIES",),
        True,
    ),
    _function("map_keys", "x MAP", "ARRAY of the keys", _bind_part, _part, ("MAP_KEYS",), False),
    _function(
        "map_values", "x MAP", "ARRAY of the values", _bind_part, _part, ("MAP_VALUES",), False
    ),
    _function(
        "map_entries",
        "x MAP",
        "ARRAY of ROW(key, value)",
        _bind_part,
        _part,
        ("MAP_ENTRIES",),
        False,
    ),
    _function("map_size", "x MAP", "INTEGER", _bind_part, _part, ("MAP_SIZE",), False),
    _function(
        "map_contains",
        "x MAP, key",
        "BOOLEAN",
        _bind_contains,
        _contains,
        ("MAP_CONTAINS", "MAP_CONTAINS_KEY"),
        False,
    ),
    _function("map_concat", "x MAP, …", "MAP", _bind_concat, _concat, ("MAP_CONCAT",), False),
)
