"""JSON_OBJECT, JSON_ARRAY and TO_JSON: JSON from values of any type.

Numbers and booleans are written as such, a DECIMAL with all digits of its scale. Dates and times,
intervals, binaries and UUIDs become strings; ARRAY, ROW and MAP become arrays and objects. A JSON
argument is inserted unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.casts.cast import conversion_of
from runnel.expressions.casts.nested import list_like
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.coercion import convert
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.function import (
    Bound,
    Datum,
    Function,
    Kernel,
    always_may_fail,
    over_arrays,
    over_first,
)
from runnel.expressions.json import text as json_text
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import ANY, named, signature
from runnel.sqltypes import JSON, VARCHAR, Kind, SqlType, array

_NULL, _EMPTY, _COLON, _COMMA = (pack_scalar(text, VARCHAR) for text in ("null", "", ":", ","))
_BRACES = tuple(pack_scalar(text, VARCHAR) for text in "{}")
_BRACKETS = tuple(pack_scalar(text, VARCHAR) for text in "[]")
_AS_THEY_ARE = frozenset(
    {
        Kind.BOOLEAN,
        Kind.TINYINT,
        Kind.SMALLINT,
        Kind.INTEGER,
        Kind.BIGINT,
        Kind.DECIMAL,
        Kind.REAL,
        Kind.DOUBLE,
    }
)
"""The kinds whose text is their JSON."""

Writer = Callable[[Datum, EvaluationContext], Datum]
"""Converts values to JSON texts."""


def writer(sql_type: SqlType) -> Writer:
    """The conversion of values of a type to JSON texts; NULL stays NULL."""
    if sql_type.kind is Kind.JSON:
        return lambda datum, context: datum
    if sql_type.is_nested:
        return conversion_of(sql_type, JSON)
    to_text = conversion_of(sql_type, VARCHAR)
    if sql_type.is_approximate:
        return lambda datum, context: _number(datum, to_text(datum, context))
    if sql_type.kind in _AS_THEY_ARE or sql_type.kind is Kind.NULL:
        return to_text
    return lambda datum, context: over_first(json_text.quoted)(to_text(datum, context))


def _number(value: Datum, text: Datum) -> Datum:
    if any_true(pc.invert(pc.is_finite(value))):
        raise DataError("NaN and infinities are not in JSON")
    return pc.replace_substring(text, "E", "e")


def _bind_object(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """The first argument says how NULLs are treated (NULL or ABSENT); names and values follow."""
    nulls, *rest = arguments
    if len(rest) % 2:
        raise ProgrammingError("JSON_OBJECT needs pairs of a name and a value", position=position)
    bound = [nulls]
    for index, argument in enumerate(rest):
        is_name = index % 2 == 0
        if is_name and (argument.type.is_nested or argument.type.kind is Kind.JSON):
            raise ProgrammingError(
                f"a name in JSON_OBJECT can't be {argument.type}",
                position=argument.position or position,
            )
        bound.append(convert(argument, VARCHAR) if is_name else argument)
    return tuple(bound), JSON


def _keeps_nulls(call: Call) -> bool:
    """Whether NULLs are written as null, and not left out."""
    nulls = call.arguments[0]
    assert isinstance(nulls, Literal)
    return bool(nulls.value == "NULL")


def _compile_object(call: Call) -> Kernel:
    keeps = _keeps_nulls(call)
    writers = [writer(item.type) for item in call.arguments[2::2]]

    def run(frame: EvaluationInput, nulls: Datum, *arguments: Datum) -> Datum:
        texts = []
        for write, name, value in zip(writers, arguments[0::2], arguments[1::2], strict=True):
            if any_true(pc.is_null(name)):
                raise DataError("a name in JSON_OBJECT is NULL")
            key = over_first(json_text.quoted)(name)
            part = pc.binary_join_element_wise(
                key, _text(write(value, frame.context), keeps), _COLON
            )
            texts.append(part)
        return _enclosed(texts, _BRACES, keeps)

    return run


def _compile_array(call: Call) -> Kernel:
    keeps = _keeps_nulls(call)
    writers = [writer(item.type) for item in call.arguments[1:]]

    def run(frame: EvaluationInput, nulls: Datum, *arguments: Datum) -> Datum:
        texts = [
            _text(write(value, frame.context), keeps)
            for write, value in zip(writers, arguments, strict=True)
        ]
        return _enclosed(texts, _BRACKETS, keeps)

    return run


def _text(written: Datum, keeps_nulls: bool) -> Datum:
    as_text = written if written.type == pa.string() else pc.cast(written, pa.string())
    return pc.coalesce(as_text, _NULL) if keeps_nulls else as_text


def _enclosed(texts: list[Datum], ends: tuple[pa.Scalar, ...], keeps_nulls: bool) -> Datum:
    """The texts, separated by commas, between braces or brackets."""
    if not texts:
        return pc.binary_join_element_wise(*ends, _EMPTY)
    if keeps_nulls:
        inner = pc.binary_join_element_wise(*texts, _COMMA)
    else:
        led = [
            pc.coalesce(pc.binary_join_element_wise(_COMMA, part, _EMPTY), _EMPTY) for part in texts
        ]
        inner = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*led, _EMPTY), 1)
    return pc.binary_join_element_wise(ends[0], inner, ends[1], _EMPTY)


def _compile_to_json(call: Call) -> Kernel:
    write = writer(call.arguments[0].type)
    return lambda frame, value: write(value, frame.context)


def _bind_list(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    return tuple(arguments), JSON


def _compile_lists(call: Call) -> Kernel:
    """JSON_OBJECTAGG over aggregated rows: the arguments are the array of names and the array of
    values of each group.
    """
    keeps = _keeps_nulls(call)
    _, names, values = call.arguments
    assert names.type.element is not None and values.type.element is not None
    to_text, write = conversion_of(names.type.element, VARCHAR), writer(values.type.element)

    def run(frame: EvaluationInput, nulls: Datum, keys: pa.Array, items: pa.Array) -> pa.Array:
        names_written, values_written = (
            to_text(keys.flatten(), frame.context),
            write(items.flatten(), frame.context),
        )
        if names_written.null_count:
            raise DataError("a name in JSON_OBJECTAGG is NULL")
        pairs = pc.binary_join_element_wise(
            over_first(json_text.quoted)(names_written), _text(values_written, keeps), _COLON
        )
        return _joined(keys, pairs, _BRACES)

    return lambda frame, nulls, keys, items: over_arrays(lambda a, b: run(frame, nulls, a, b))(
        keys, items
    )


def _compile_items(call: Call) -> Kernel:
    """JSON_ARRAYAGG over aggregated rows: the argument is the array of each group."""
    keeps = _keeps_nulls(call)
    element = call.arguments[1].type.element
    assert element is not None
    write = writer(element)

    def run(frame: EvaluationInput, items: pa.Array) -> pa.Array:
        return _joined(items, _text(write(items.flatten(), frame.context), keeps), _BRACKETS)

    return lambda frame, nulls, items: over_first(lambda array: run(frame, array))(items)


def _joined(lists: pa.Array, texts: pa.Array, ends: tuple[pa.Scalar, ...]) -> pa.Array:
    """The texts of each list's items as one text, without NULLs."""
    from runnel.expressions.nested.construct import join_lists

    inner = join_lists(list_like(lists, texts, array(VARCHAR)), pa.repeat(_COMMA, len(lists)))
    return pc.binary_join_element_wise(ends[0], inner, ends[1], _EMPTY)


def _pretty(document: str) -> str:
    import json

    return _indented(json_text.parse(document), "", json)


def _indented(value: Any, indent: str, json: Any) -> str:
    deeper = indent + "    "
    if isinstance(value, dict) and value:
        rows = [
            f"{deeper}{json.dumps(name, ensure_ascii=False)}: {_indented(item, deeper, json)}"
            for name, item in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n" + indent + "}"
    if isinstance(value, list) and value:
        return (
            "[\n"
            + ",\n".join(deeper + _indented(item, deeper, json) for item in value)
            + "\n"
            + indent
            + "]"
        )
    return json_text.write(value)


def _stripped(document: str) -> str:
    return json_text.write(_without_nulls(json_text.parse(document)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _merged(document: str, patch: str) -> str:
    return json_text.write(_patched(json_text.parse(document), json_text.parse(patch)))


def _patched(value: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, item in patch.items():
        if item is None:
            merged.pop(name, None)
        else:
            merged[name] = _patched(merged.get(name), item)
    return merged


def _built(
    name: str,
    arguments: str,
    bind: Any,
    compile_call: Callable[[Call], Kernel],
    names: tuple[str, ...] = (),
) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result="JSON",
        bind=bind,
        compile=compile_call,
        sql_names=names,
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=_has_instants,
        family="JSON",
    )


def _has_instants(call: Call) -> bool:
    return any(item.type.kind is Kind.TIMESTAMP_TZ for item in call.arguments)


FUNCTIONS = (
    _built(
        "json_object",
        "[KEY] name VALUE x | name : x, … [NULL | ABSENT ON NULL]",
        _bind_object,
        _compile_object,
    ),
    _built("json_array", "x ANY, … [NULL | ABSENT ON NULL]", _bind_list, _compile_array),
    _built("json_array_of_list", "nulls, x ARRAY", _bind_list, _compile_items),
    _built("json_object_of_lists", "nulls, names ARRAY, x ARRAY", _bind_list, _compile_lists),
    _built(
        "to_json",
        "x ANY",
        signature(ANY, result=JSON),
        _compile_to_json,
        ("TO_JSON", "TO_JSONB", "ROW_TO_JSON"),
    ),
    *(
        named(
            name,
            arguments,
            "JSON",
            signature(*[JSON] * (2 if name == "json_merge_patch" else 1), result=JSON),
            per_value(of_row),
            sql_names=names,
            can_fail=always_may_fail,
            family="JSON",
        )
        for name, arguments, of_row, names in (
            ("json_pretty", "x JSON", _pretty, ("JSONB_PRETTY",)),
            ("json_strip_nulls", "x JSON", _stripped, ()),
            ("json_merge_patch", "x JSON, patch JSON", _merged, ()),
        )
    ),
)
