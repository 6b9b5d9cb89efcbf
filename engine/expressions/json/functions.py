"""JSON_VALUE, JSON_QUERY, JSON_EXISTS and IS JSON: values in JSON texts, found by a path, once per
distinct text.

A text that isn't JSON is an error, as is a value that the function can't return. ON ERROR says how
errors are treated (the default is NULL).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.casts.cast import compile_cast
from runnel.expressions.coercion import convert
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail
from runnel.expressions.json import text as json_text
from runnel.expressions.json.path import compile_path
from runnel.expressions.kernels.buffers import null_scalar, pack_scalar
from runnel.expressions.kernels.per_value import kernel_of, per_value
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.sqltypes import BOOLEAN, JSON, VARCHAR, Kind, SqlType, can_cast

_NOTHING = object()


@lru_cache(maxsize=512)
def parsed(text: str) -> Any:
    """The value of a JSON text; cached, as many calls in one query read the same text."""
    return json_text.parse(text)


def _found(text: str, path: str) -> list[Any]:
    return compile_path(path)(parsed(text))


def _document(argument: Expression, name: str, position: Position | None) -> Expression:
    if argument.type.kind is Kind.NULL:
        return convert(argument, JSON)
    if argument.type.kind in (Kind.JSON, Kind.VARCHAR):
        return argument
    if argument.type.is_nested:
        return convert(argument, JSON)
    raise ProgrammingError(
        f"argument 1 of {name.upper()} must be JSON or VARCHAR, not {argument.type}",
        hint="CAST it to JSON",
        position=argument.position or position,
    )


def _path(argument: Expression, name: str, position: Position | None) -> Expression:
    if argument.type.kind is Kind.NULL:
        return convert(argument, VARCHAR)
    if argument.type.kind is not Kind.VARCHAR:
        raise ProgrammingError(
            f"the path of {name.upper()} must be VARCHAR, not {argument.type}",
            position=argument.position or position,
        )
    if isinstance(argument, Literal):
        try:
            compile_path(argument.value)
        except DataError as error:
            raise ProgrammingError(
                error.message, hint=error.hint, position=argument.position or position
            ) from None
    return argument


def _bind_with(
    result: Callable[[Sequence[Expression]], SqlType], count: int
) -> Callable[..., Bound]:
    """Returns a `bind` for the document, the path ($ if it is missing), and the arguments that the
    planner adds.
    """

    def bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        operands = list(arguments)
        if len(operands) == count - 1:
            operands.insert(1, Literal(value="$", type=VARCHAR))
        if len(operands) != count:
            raise ProgrammingError(f"{name.upper()} needs a JSON and a path", position=position)
        document, path = _document(operands[0], name, position), _path(operands[1], name, position)
        return (document, path, *operands[2:]), result(operands)

    return bind


def _text_of(argument: Expression) -> str:
    assert isinstance(argument, Literal)
    return str(argument.value)


def _scalar(text: str, path: str) -> Any:
    """The one scalar that a path finds, as text; _NOTHING if there is none. JSON's null is None."""
    found = _found(text, path)
    if not found:
        return _NOTHING
    if len(found) > 1:
        raise DataError(
            "JSON_VALUE evaluated to multiple values", hint="use JSON_QUERY with an array wrapper"
        )
    if isinstance(found[0], dict | list):
        raise DataError("JSON_VALUE found an object or an array", hint="use JSON_QUERY")
    return plain(found[0])


def plain(value: Any) -> str | None:
    """A value as text: a JSON string without its quotes."""
    if value is None or isinstance(value, str):
        return value
    return json_text.write(value)


def _outcome(text: str, path: str) -> str:
    try:
        return "EMPTY" if _scalar(text, path) is _NOTHING else "FOUND"
    except DataError:
        return "ERROR"


def _compile_outcome(call: Call) -> Kernel:
    """The outcome of JSON_VALUE: 'FOUND', 'EMPTY' or 'ERROR'. It is 'ERROR' too if the value isn't
    of the requested type.
    """
    types = [item.type for item in call.arguments[:2]]
    plain = kernel_of(_outcome, types, VARCHAR)
    texts = kernel_of(_quiet_text, types, VARCHAR)
    target = call.arguments[2].type
    converted = _converter(target)

    def run(frame: EvaluationInput, document: Datum, path: Datum, kind: Datum) -> Datum:
        outcome = plain(document, path)
        if target == VARCHAR:
            return outcome
        value = texts(document, path)
        fits = converted(frame, value)[1]
        return pc.if_else(fits, outcome, _ERROR)

    return run


_ERROR = pack_scalar("ERROR", VARCHAR)


def _quiet_text(text: str, path: str) -> str | None:
    try:
        found = _scalar(text, path)
    except DataError:
        return None
    return None if found is _NOTHING else found


def _converter(target: SqlType) -> Callable[[EvaluationInput, Datum], tuple[Datum, Datum]]:
    """Converts texts to values of a type, NULL for texts that aren't; and returns which texts could
    be converted.
    """
    from runnel.expressions.casts.try_cast import attempted

    conversion = compile_cast(VARCHAR, target)

    def run(frame: EvaluationInput, texts: Datum) -> tuple[Datum, Datum]:
        values = attempted(conversion, texts, VARCHAR, target, frame.context)
        return values, pc.or_(pc.is_valid(values), pc.is_null(texts))

    return run


def _compile_value(call: Call) -> Kernel:
    on_empty, on_error = _text_of(call.arguments[2]).split(",")
    types, target = [item.type for item in call.arguments[:2]], call.type
    conversion = compile_cast(VARCHAR, target, call.position)
    converted = _converter(target)

    def text(document: str, path: str) -> str | None:
        try:
            found = _scalar(document, path)
        except DataError:
            if on_error == "ERROR":
                raise
            return None
        if found is _NOTHING:
            if on_empty == "ERROR":
                raise DataError("JSON_VALUE evaluated to no value", hint="add DEFAULT … ON EMPTY")
            return None
        return found  # type: ignore[no-any-return]

    texts = kernel_of(text, types, VARCHAR)

    def run(frame: EvaluationInput, document: Datum, path: Datum, *rest: Datum) -> Datum:
        value = texts(document, path)
        if target == VARCHAR:
            return value
        return (
            conversion(value, frame.context) if on_error == "ERROR" else converted(frame, value)[0]
        )

    return run


def _bind_value(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    bound, result = _bind_with(lambda operands: operands[-1].type, 4)(name, arguments, position)
    if not can_cast(VARCHAR, result) or result.is_nested:
        raise ProgrammingError(
            f"JSON_VALUE can't return {result}",
            hint="use CAST(JSON_QUERY(…) AS …)",
            position=position,
        )
    return bound, result


_EMPTIES = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}", "NULL": None}


def _compile_query(call: Call) -> Kernel:
    on_empty, on_error, wrapper = _text_of(call.arguments[2]).split(",")

    def query(document: str, path: str) -> str | None:
        try:
            return _queried(_found(document, path), wrapper, on_empty)
        except DataError:
            if on_error == "ERROR":
                raise
            return _EMPTIES[on_error]

    kernel = kernel_of(query, [item.type for item in call.arguments[:2]], JSON)
    return lambda document, path, answers: kernel(document, path)


def _queried(found: list[Any], wrapper: str, on_empty: str) -> str | None:
    if not found:
        if on_empty == "ERROR":
            raise DataError("JSON_QUERY evaluated to no value", hint="add NULL ON EMPTY")
        return _EMPTIES[on_empty]
    if wrapper == "UNCONDITIONAL" or (
        wrapper == "CONDITIONAL" and (len(found) > 1 or not isinstance(found[0], dict | list))
    ):
        return json_text.write(found)
    if len(found) > 1:
        raise DataError("JSON_QUERY evaluated to multiple values", hint="add WITH ARRAY WRAPPER")
    return json_text.write(found[0])


def _compile_exists(call: Call) -> Kernel:
    on_error = _text_of(call.arguments[2])
    answers = {"TRUE": True, "FALSE": False, "UNKNOWN": None}

    def exists(document: str, path: str) -> bool | None:
        try:
            return bool(_found(document, path))
        except DataError:
            if on_error == "ERROR":
                raise
            return answers[on_error]

    kernel = kernel_of(exists, [item.type for item in call.arguments[:2]], BOOLEAN)
    return lambda document, path, answer: kernel(document, path)


_KINDS = {"object": (dict,), "array": (list,), "value": (object,)}


def _is_json(document: str, kind: str) -> bool:
    try:
        value = json_text.parse(document)
    except DataError:
        return False
    return (
        not isinstance(value, dict | list) if kind == "scalar" else isinstance(value, _KINDS[kind])
    )


def _compile_is_json(call: Call) -> Kernel:
    kernel = per_value(_is_json)(call)
    if call.arguments[0].type.kind is not Kind.JSON or _text_of(call.arguments[1]) != "value":
        return kernel
    return lambda document, kind: pc.if_else(
        pc.is_valid(document), pack_scalar(True, BOOLEAN), null_scalar(BOOLEAN)
    )


def _bind_is_json(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    document = arguments[0]
    if document.type.kind not in (Kind.JSON, Kind.VARCHAR, Kind.NULL):
        raise ProgrammingError(
            f"cannot apply IS JSON to {document.type}", position=document.position or position
        )
    return (
        convert(document, VARCHAR) if document.type.kind is Kind.NULL else document,
        *arguments[1:],
    ), BOOLEAN


def _function(
    name: str,
    arguments: str,
    result: str,
    bind: Any,
    compile_call: Any,
    *,
    needs_frame: bool = False,
) -> Function:
    """One that the planner calls by its key, having read its clauses."""
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=compile_call,
        can_fail=always_may_fail,
        needs_frame=needs_frame,
        family="JSON",
    )


_ON = "[NULL | ERROR | DEFAULT e ON EMPTY] [NULL | ERROR | DEFAULT e ON ERROR]"
FUNCTIONS = (
    _function(
        "json_value",
        f"x JSON, path VARCHAR [RETURNING type] {_ON}",
        "VARCHAR, or the type",
        _bind_value,
        _compile_value,
        needs_frame=True,
    ),
    _function(
        "json_outcome",
        "x JSON, path VARCHAR",
        "VARCHAR",
        _bind_with(lambda operands: VARCHAR, 3),
        _compile_outcome,
        needs_frame=True,
    ),
    _function(
        "json_query",
        "x JSON, path VARCHAR [WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL] ARRAY WRAPPER]"
        " [NULL | ERROR | EMPTY ARRAY | EMPTY OBJECT ON EMPTY] [… ON ERROR]",
        "JSON",
        _bind_with(lambda operands: JSON, 3),
        _compile_query,
    ),
    _function(
        "json_exists",
        "x JSON, path VARCHAR [TRUE | FALSE | UNKNOWN | ERROR ON ERROR]",
        "BOOLEAN",
        _bind_with(lambda operands: BOOLEAN, 3),
        _compile_exists,
    ),
    Function(
        name="is_json",
        arguments="x VARCHAR [VALUE | OBJECT | ARRAY | SCALAR]",
        result="BOOLEAN",
        bind=_bind_is_json,
        compile=_compile_is_json,
        family="JSON",
    ),
)
