"""Implicit conversions: an expression as the type that its context requires."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.casts.cast import cast_datum, depends_on_session
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import spread
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.nodes import Cast, Expression, Literal, Parameter
from runnel.expressions.time.intervals import narrowed
from runnel.sqltypes import (
    BIGINT,
    DOUBLE,
    INTEGER_WIDTHS,
    NULL,
    TINYINT,
    VARBINARY,
    Kind,
    SqlType,
    can_assign,
    can_cast,
    common_type,
    decimal,
)

_TEXT = SqlType(Kind.VARCHAR)
_CONTEXT = EvaluationContext()
_ELSEWHERE = (
    EvaluationContext(now=86_400_000_000 * 365, zone="Pacific/Kiritimati"),
    EvaluationContext(now=0, zone="Etc/GMT+12"),
)
"""Sessions of other dates, in the zones that are the furthest from UTC: no instant has the same
date in all of them. A value that is equal in all contexts depends on none."""
_FROM_TEXT = frozenset(
    {
        Kind.DATE,
        Kind.TIME,
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_TZ,
        Kind.JSON,
        Kind.UUID,
        Kind.INTERVAL,
        Kind.INTERVAL_MONTH,
        Kind.INTERVAL_MIXED,
    }
)
"""The kinds that a VARCHAR literal or parameter is converted to where its context requires them."""


def convert(expression: Expression, target: SqlType) -> Expression:
    """The expression as `target`, with an implicit cast only if there is no simpler way.

    The caller checks that the conversion is allowed. A literal becomes a literal. A parameter gets
    the target's type if it has no type, or if it is text and the target is one of the kinds that
    text is read as. A parameter that occurs in contexts of several types gets a cast in each.
    """
    source = expression.type
    if source == target:
        return expression
    if isinstance(expression, Literal):
        return convert_literal(expression, target)
    if (
        isinstance(expression, Parameter)
        and not expression.is_fixed
        and takes_type(expression, target)
    ):
        return replace(expression, type=target)
    return Cast(operand=expression, type=target, implicit=True, position=expression.position)


def takes_type(expression: Expression, target: SqlType) -> bool:
    """Whether a literal or parameter may be read as `target` directly."""
    if not isinstance(expression, (Literal, Parameter)):
        return False
    kind = expression.type.kind
    return kind is Kind.NULL or (kind is Kind.VARCHAR and target.kind in _FROM_TEXT)


def convert_literal(literal: Literal, target: SqlType) -> Expression:
    """The literal as a literal of `target`.

    A text that can't be read as a temporal value raises DataError. Any other value that doesn't fit
    remains a cast, which fails when it is evaluated for a row. A value that depends on the session
    remains a cast too.
    """
    if literal.value is None:
        return replace(literal, type=target)
    if (
        literal.type.is_integer and target.is_integer
    ):  # a short cut, as an IN list or VALUES may have thousands of integers
        limit = 1 << (INTEGER_WIDTHS[target.kind] - 1)
        if -limit <= literal.value < limit:
            return Literal(value=literal.value, type=target, position=literal.position)
    scalar = pack_scalar(literal.value, literal.type)
    as_cast = Cast(operand=literal, type=target, implicit=True, position=literal.position)
    try:
        datum = cast_datum(scalar, literal.type, target, _CONTEXT)
        if depends_on_session(literal.type, target) and any(
            datum != cast_datum(scalar, literal.type, target, context) for context in _ELSEWHERE
        ):
            return as_cast
    except DataError as error:
        if literal.type.kind is Kind.VARCHAR and target.kind in _FROM_TEXT:
            position = literal.position
            raise type(error)(error.message, hint=error.hint, position=position) from None
        return as_cast
    return replace(literal, value=python_values(spread(datum, 1), target)[0], type=target)


def retype_parameters(arguments: Sequence[Expression]) -> list[Expression]:
    """Converts the operands without a type to the type of the operands that have one.

    Operands without a type are NULL, columns of nothing but NULLs, and parameters. Texts get the
    type of the first operand that is neither NULL nor text, if text is read as that type.
    """
    model = next(
        (item.type for item in arguments if item.type.kind not in (Kind.NULL, Kind.VARCHAR)), None
    )
    if model is None:
        model = next((item.type for item in arguments if item.type.kind is not Kind.NULL), NULL)
    return [
        convert(item, model) if item.type != model and _follows(item, model) else item
        for item in arguments
    ]


def read_numbers(arguments: Sequence[Expression]) -> Sequence[Expression]:
    """The operands of a comparison, with numbers or truth values in place of text literals if a
    side is numeric or BOOLEAN: `x > '5'` compares with 5."""
    model = next(
        (item.type for item in arguments if item.type.is_numeric or item.type.kind is Kind.BOOLEAN),
        None,
    )
    if model is None:
        return arguments
    return [
        _number(item, model)
        if isinstance(item, Literal) and item.type.kind is Kind.VARCHAR and item.value is not None
        else item
        for item in arguments
    ]


def read_arrays(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Two operands, of which a text literal becomes an ARRAY if its counterpart is an ARRAY:
    `tags = '{a,b}'`."""
    return _array_like(left, right.type), _array_like(right, left.type)


def _array_like(operand: Expression, model: SqlType) -> Expression:
    is_text = isinstance(operand, Literal) and operand.type.kind is Kind.VARCHAR
    if not is_text or model.kind is not Kind.ARRAY:
        return operand
    return Cast(operand=operand, type=model, implicit=True, position=operand.position)


def _number(literal: Literal, model: SqlType) -> Expression:
    """The number that a text literal denotes, in a type with all its digits; if it is none, a cast
    to `model`, which fails when it is evaluated."""
    text = literal.value.strip()
    if model.is_numeric and _INTEGER.fullmatch(text):
        return convert_literal(literal, BIGINT if len(text) < 19 else decimal(38, 0))
    found = _DECIMAL.fullmatch(text) if model.is_exact else None
    if found is not None:
        return convert_literal(literal, decimal(len(found[1] + found[2]), len(found[2])))
    return convert_literal(literal, DOUBLE if model.is_integer else model)


_INTEGER = re.compile(r"[+-]?[0-9]{1,38}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]{0,19})\.([0-9]{1,19})", re.ASCII)


def _follows(expression: Expression, model: SqlType) -> bool:
    """Whether an operand without a type of its own becomes `model`."""
    return expression.type.kind is Kind.NULL or takes_type(expression, model)


def coerce(
    expressions: Sequence[Expression], what: str = "expressions", position: Position | None = None
) -> list[Expression]:
    """The expressions, all converted to their common type; `what` names the construct in the error
    ("CASE", "UNION").
    """
    arguments = retype_parameters(expressions)
    target = NULL
    for item in arguments:
        common = common_type(target, narrow_literal_type(item))
        if common is None:
            raise ProgrammingError(
                f"cannot infer return type for {what} among {operand_types(arguments)}",
                hint="add an explicit CAST",
                position=item.position or position,
            )
        target = common
    return [convert(item, target) for item in arguments]


def narrow_literal_type(expression: Expression) -> SqlType:
    """The type of an expression; for a DECIMAL literal, the type with as many digits as the literal
    has.
    """
    if (
        isinstance(expression, Literal)
        and expression.type.kind is Kind.DECIMAL
        and expression.value is not None
    ):
        return exact_decimal(expression)
    return expression.type


def exact_decimal(literal: Literal) -> SqlType:
    """The DECIMAL type with as many digits as an integer or DECIMAL literal has."""
    if isinstance(literal.value, int):
        return decimal(max(len(str(abs(literal.value))), 1), 0)
    return literal.type


def assign(expression: Expression, target: SqlType, column_name: str) -> Expression:
    """The expression as INSERT or UPDATE stores it in a column of type `target`."""
    source = expression.type
    if source == target:
        return expression
    if can_assign(source, target) or takes_type(expression, target):
        return convert(expression, target)
    if isinstance(expression, Literal) and source.kind is Kind.VARCHAR and _reads(target):
        return Cast(operand=expression, type=target, position=expression.position)
    raise ProgrammingError(
        f'cannot assign to target field "{column_name}" of type {target} from source field of type '
        f"{source}",
        hint=f"add an explicit CAST to {target}" if can_cast(source, target) else None,
        position=expression.position,
    )


def _reads(target: SqlType) -> bool:
    """Whether a text literal is assigned to a column of this type as if it was CAST to it."""
    return target.kind is Kind.ARRAY and can_cast(_TEXT, target)


def cast(
    expression: Expression,
    target: SqlType,
    position: Position | None = None,
    implicit: bool = False,
) -> Expression:
    """CAST(expression AS target)."""
    source = expression.type
    if source == target:
        return expression
    if target.kind is Kind.VARBINARY and _has_hex(expression):
        return _bytes_of(expression, position)
    if not can_cast(source, target):
        raise ProgrammingError(
            f"CAST function cannot convert value of type {source} to type {target}",
            position=position or expression.position,
        )
    if implicit or takes_type(expression, target):
        found = convert(expression, target)
        return found if implicit else _narrowed(found)
    return Cast(
        operand=expression, type=target, implicit=implicit, position=position or expression.position
    )


def explicit_cast(
    expression: Expression, target: SqlType, position: Position | None = None
) -> Expression:
    """A CAST that a statement writes. Of a truth value to DECIMAL or DOUBLE, it is a CAST of 1 or
    0, as in DuckDB."""
    if expression.type.kind is Kind.BOOLEAN and target.is_numeric and not target.is_integer:
        expression = cast(expression, TINYINT, position)
    return cast(expression, target, position)


def _narrowed(expression: Expression) -> Expression:
    """A literal of INTERVAL in the type of months, or of days and less, if it has only these."""
    if (
        not isinstance(expression, Literal)
        or expression.value is None
        or expression.type.kind is not Kind.INTERVAL_MIXED
    ):
        return expression
    value, sql_type = narrowed(expression.value)
    return replace(expression, value=value, type=sql_type)


_HEX_FORMAT = re.compile(r"\\x(?:[0-9A-Fa-f]{2})*")
_ESCAPED = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|[\x20-\x5b\x5d-\x7e])*")


def _has_hex(expression: Expression) -> bool:
    value = expression.value if isinstance(expression, Literal) else None
    return isinstance(value, str) and "\\x" in value


def _bytes_of(expression: Expression, position: Position | None) -> Expression:
    """The bytes of a text literal with hexadecimal digits, as BYTEA and BLOB read it.

    PostgreSQL: '\\xDEAD' is two bytes. DuckDB: '\\xDE\\xADab' is four.
    """
    assert isinstance(expression, Literal)
    text, value = expression.value, None
    if _HEX_FORMAT.fullmatch(text):
        value = bytes.fromhex(text[2:])
    elif _ESCAPED.fullmatch(text):
        value = re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())
    if value is None:
        raise ProgrammingError(
            f"'{text}' is no text of bytes",
            hint="write the bytes in hexadecimal digits: X'DEAD'",
            position=position or expression.position,
        )
    return replace(expression, value=value, type=VARBINARY)


def check_count(
    name: str, arguments: Sequence[Expression], count: int, position: Position | None
) -> None:
    """Raises ProgrammingError unless there are `count` arguments."""
    if len(arguments) != count:
        plural = "" if count == 1 else "s"
        raise ProgrammingError(
            f"{name.upper()} expects {count} argument{plural}, not {len(arguments)}",
            position=position,
        )


def operand_types(arguments: Sequence[Expression]) -> str:
    """The types of some operands as an error lists them: [INTEGER, VARCHAR]."""
    return "[" + ", ".join(str(item.type) for item in arguments) + "]"
