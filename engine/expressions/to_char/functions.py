"""TO_CHAR, and the inverse functions TO_DATE, TO_TIMESTAMP and TO_NUMBER with a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.casts.temporal import instant, local
from runnel.expressions.coercion import convert
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, spread
from runnel.expressions.kernels.buffers import FALSE, pack_scalar
from runnel.expressions.kernels.options import by_option
from runnel.expressions.kernels.per_value import kernel_of, per_value
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.signature import named, signature
from runnel.expressions.to_char import format_numbers as char_numbers
from runnel.expressions.to_char import format_time as char_moments
from runnel.expressions.to_char.parse_time import over_distinct, read, reads_offset
from runnel.sqltypes import BOOLEAN, DATE, DOUBLE, TIMESTAMP, TIMESTAMP_TZ, VARCHAR, Kind, decimal

_INT64 = pa.int64()


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if len(arguments) not in (2, 3):
        raise ProgrammingError(
            f"TO_CHAR expects 2 to 3 arguments, not {len(arguments)}", position=position
        )
    value, pattern, *locale = arguments
    if value.type.kind in (Kind.DATE, Kind.NULL):
        value = convert(value, TIMESTAMP)
    if value.type.kind is Kind.INTERVAL_MIXED:
        raise ProgrammingError(
            "TO_CHAR has no fields of an INTERVAL of months and days",
            hint="CAST it to VARCHAR, or to INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH",
            position=value.position or position,
        )
    if not (value.type.is_numeric or value.type.is_temporal or value.type.is_interval):
        raise ProgrammingError(
            "argument 1 of TO_CHAR must be a number, a date, a time or an INTERVAL, "
            f"not {value.type}",
            hint="add an explicit CAST",
            position=value.position or position,
        )
    for item in (pattern, *locale):
        if item.type.kind not in (Kind.VARCHAR, Kind.NULL):
            raise ProgrammingError(
                f"the pattern of TO_CHAR must be VARCHAR, not {item.type}",
                position=item.position or position,
            )
    return (value, *(convert(item, VARCHAR) for item in (pattern, *locale))), VARCHAR


def _compile(call: Call) -> Kernel:
    source = call.arguments[0].type
    if source.is_numeric:
        numbers = kernel_of(char_numbers.text_of, [source, VARCHAR], VARCHAR)
        return lambda frame, value, pattern, *locale: numbers(value, pattern)

    def run(frame: EvaluationInput, value: Datum, pattern: Datum, *locale: Datum) -> Datum:
        if isinstance(pattern, pa.Scalar):
            if isinstance(value, pa.Scalar):
                return _times(frame, pa.repeat(value, 1), pattern, source.kind)[0]
            return _times(frame, value, pattern, source.kind)
        values = spread(value, len(pattern))
        answer: pa.Array = pa.nulls(len(pattern), pa.string())
        for distinct in pattern.unique().drop_null():
            chosen = pc.coalesce(pc.equal(pattern, distinct), FALSE)
            answer = pc.if_else(chosen, _times(frame, values, distinct, source.kind), answer)
        return answer

    return run


def _times(frame: EvaluationInput, values: pa.Array, pattern: pa.Scalar, kind: Kind) -> pa.Array:
    if not pattern.is_valid:
        return pa.nulls(len(values), pa.string())
    if kind is Kind.TIMESTAMP_TZ:
        zone = frame.context.zone
        wall = local(values, zone)
        offset = pc.subtract(pc.cast(wall, _INT64), pc.cast(values, _INT64))
        return char_moments.text_of(
            char_moments.FormattedTimes(wall, kind, offset, zone), pattern.as_py()
        )
    return char_moments.text_of(char_moments.FormattedTimes(values, kind), pattern.as_py())


def _to_date(pattern: str) -> Callable[[Datum], Datum]:
    return over_distinct(
        lambda texts: pc.cast(
            pc.floor_temporal(read(texts, pattern).walls, unit="day"), pa.date32()
        )
    )


def _parse_time(pattern: str) -> Callable[[Datum], Datum]:
    return over_distinct(lambda texts: read(texts, pattern).walls)


def _bind_timestamp(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """TO_TIMESTAMP(text, pattern), or TO_TIMESTAMP(seconds since the epoch)."""
    if len(arguments) == 1:
        return signature(DOUBLE, result=TIMESTAMP_TZ)(name, arguments, position)
    return signature(VARCHAR, VARCHAR, result=TIMESTAMP_TZ)(name, arguments, position)


def _compile_timestamp(call: Call) -> Kernel:
    if len(call.arguments) == 1:
        return lambda frame, seconds: _of_epoch(seconds)
    arguments = Call(function="to_timestamp", arguments=call.arguments, type=TIMESTAMP)
    walls = by_option(lambda pattern: over_distinct(lambda texts: read(texts, pattern).instants))(
        arguments
    )
    offsets = by_option(
        lambda pattern: over_distinct(lambda texts: read(texts, pattern).offset_flags)
    )(Call(function="to_timestamp", arguments=call.arguments, type=BOOLEAN))

    def run(frame: EvaluationInput, text: Datum, pattern: Datum) -> Datum:
        wall = walls(text, pattern)
        if frame.context.zone == "UTC":
            return instant(wall, "UTC")
        if (
            isinstance(pattern, pa.Scalar)
            and pattern.is_valid
            and not reads_offset(pattern.as_py())
        ):
            return instant(wall, frame.context.zone)
        return pc.if_else(
            offsets(text, pattern), instant(wall, "UTC"), instant(wall, frame.context.zone)
        )

    return run


def _of_epoch(seconds: Datum) -> Datum:
    micros = pc.round(
        pc.multiply(seconds, pack_scalar(1e6, DOUBLE)), 0, round_mode="half_towards_infinity"
    )
    return pc.cast(pc.cast(micros, _INT64), pa.timestamp("us", "UTC"))


_WIDE = Context(prec=400)


def _to_number(text: str, pattern: str) -> Decimal:
    """The number of the digits, the point and the sign in a text; other characters are ignored."""
    char_numbers.number_pattern(pattern)
    negative = "-" in text or (text.strip().startswith("<") and text.strip().endswith(">"))
    digits = "".join(character for character in text if character.isdigit() or character == ".")
    try:
        number = Decimal(digits)
    except InvalidOperation:
        raise DataError(f"the text '{text[:60]}' is not a number") from None
    if "V" in pattern.upper():
        number = number.scaleb(-char_numbers.number_pattern(pattern).shift)
    number = number.quantize(Decimal(1).scaleb(-10), rounding=ROUND_HALF_UP, context=_WIDE)
    if abs(number) >= 10**28:
        raise DataError("overflow")
    return -number if negative else number


def _session(call: Call) -> bool:
    return call.arguments[0].type.kind is Kind.TIMESTAMP_TZ


FUNCTIONS = (
    Function(
        name="to_char",
        arguments="x number, date, time or INTERVAL, pattern VARCHAR [, locale VARCHAR]",
        result="VARCHAR",
        bind=_bind,
        compile=_compile,
        sql_names=("TO_CHAR",),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=_session,
        family="date-time",
    ),
    named(
        "to_date",
        "s VARCHAR, pattern VARCHAR",
        "DATE",
        signature(VARCHAR, VARCHAR, result=DATE),
        by_option(_to_date),
        can_fail=always_may_fail,
        family="date-time",
    ),
    Function(
        name="to_timestamp",
        arguments="s VARCHAR, pattern VARCHAR | seconds DOUBLE",
        result="TIMESTAMP WITH TIME ZONE",
        bind=_bind_timestamp,
        compile=_compile_timestamp,
        sql_names=("TO_TIMESTAMP",),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=lambda call: len(call.arguments) == 2,
        family="date-time",
    ),
    Function(
        name="parse_time",
        arguments="",
        result="TIMESTAMP",
        bind=signature(VARCHAR, VARCHAR, result=TIMESTAMP),
        compile=by_option(_parse_time),
        can_fail=always_may_fail,
        family="date-time",
    ),
    named(
        "to_number",
        "s VARCHAR, pattern VARCHAR",
        "DECIMAL(38, 10)",
        signature(VARCHAR, VARCHAR, result=decimal()),
        per_value(_to_number),
        can_fail=always_may_fail,
        family="math",
    ),
)
