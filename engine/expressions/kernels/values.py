"""Conversion of Python values to Arrow and back: arguments and rows in, fetched values out.

The modules `canonical` and `python_values` are part of this module's interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from runnel.errors import DataError, ProgrammingError
from runnel.expressions.casts.cast import cast_datum
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.buffers import null_scalar, pack, pack_nested, pack_scalar
from runnel.expressions.kernels.canonical import canonical
from runnel.expressions.kernels.failure import shown
from runnel.expressions.kernels.python_values import Interval, python_values
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER_WIDTHS,
    INTERVAL,
    INTERVAL_MIXED,
    INTERVAL_MONTH,
    MAX_PRECISION,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARBINARY,
    VARCHAR,
    Kind,
    SqlType,
    array,
    can_assign,
    common_type,
    decimal,
    row,
    to_arrow,
)

__all__ = ["array_of", "canonical", "parameter_type", "python_values", "scalar_of"]

_BULK = 256
"""The number of values from which Arrow's own conversion is used where possible."""


def scalar_of(value: Any, sql_type: SqlType, zone: str = "UTC") -> pa.Scalar:
    """A Python value as a scalar of the canonical type; DataError naming the value if it doesn't
    fit.
    """
    if value is None:
        return null_scalar(sql_type)
    kind = sql_type.kind
    if type(value) is _PLAIN_CLASSES.get(kind) and (
        type(value) is not int or -(2**63) <= value < 2**63
    ):
        return pack_scalar(value, sql_type)
    return array_of((value,), sql_type, zone)[0]


def array_of(values: Sequence[Any], sql_type: SqlType, zone: str = "UTC") -> pa.Array:
    """Python values as an array of the canonical type.

    A value of another type is converted as an assignment would convert it. Text and naive times
    become instants in the session's `zone`. Raises DataError naming the first value that doesn't
    fit.
    """
    if sql_type.is_nested:
        containers = [_container(value, sql_type) for value in values]
        return pack_nested(
            containers, sql_type, lambda items, item_type: array_of(items, item_type, zone)
        )
    if len(values) >= _BULK:
        found = _bulk(values, sql_type)
        if found is not None:
            return found
    own = [None if value is None else plain_value(value) for value in values]
    natural = NULL
    for value in own:
        if value is not None:
            found = common_type(natural, _type_of(value))
            if found is None:  # without a common type each value is converted on its own
                return pa.concat_arrays([array_of((value,), sql_type, zone) for value in own])
            natural = found
    own = _alike(own, natural, zone)
    if natural == sql_type or natural.kind is Kind.NULL or _fits_as_it_is(natural, sql_type, own):
        return pack(own, sql_type)
    if not (can_assign(natural, sql_type) or natural.kind is Kind.VARCHAR):
        raise DataError(
            f"value {shown(next(value for value in own if value is not None))} of type {natural} "
            f"doesn't fit {sql_type}"
        )
    return cast_datum(pack(own, natural), natural, sql_type, EvaluationContext(zone=zone))


def _container(value: Any, sql_type: SqlType) -> Any:
    """A value of a nested type as the list or dict that it is packed from.

    For a ROW, a list has the values in order, and a dict may leave out fields (which are NULL) but
    have no others.
    """
    value = None if value is None else plain_value(value)
    if value is None:
        return None
    if sql_type.kind is Kind.ROW:
        names = [name for name, _ in sql_type.fields]
        if isinstance(value, list) and len(value) == len(names):
            return dict(zip(names, value, strict=True))
        if isinstance(value, dict) and value.keys() <= set(names):
            return {name: value.get(name) for name in names}
    elif isinstance(value, dict if sql_type.kind is Kind.MAP else list):
        return value
    raise DataError(f"value {shown(value)} doesn't fit {sql_type}")


def _bulk(values: Sequence[Any], sql_type: SqlType) -> pa.Array | None:
    """Many values by Arrow's own conversion, which is faster; None if its result may differ from
    Runnel's.
    """
    classes = _CLASSES.get(sql_type.kind)
    if classes is None or not {type(value) for value in values} <= classes:
        return None
    if sql_type.kind is Kind.TIME and any(
        value is not None and value.tzinfo is not None for value in values
    ):
        return None
    try:
        return pa.array(values, type=to_arrow(sql_type))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


_NONE = type(None)
_CLASSES: dict[Kind, set[type]] = {
    Kind.BOOLEAN: {bool, _NONE},
    Kind.TINYINT: {int, _NONE},
    Kind.SMALLINT: {int, _NONE},
    Kind.INTEGER: {int, _NONE},
    Kind.BIGINT: {int, _NONE},
    Kind.DOUBLE: {float, _NONE},
    Kind.DECIMAL: {Decimal, _NONE},
    Kind.VARCHAR: {str, _NONE},
    Kind.VARBINARY: {bytes, _NONE},
    Kind.DATE: {date, _NONE},
    Kind.TIME: {time, _NONE},
    Kind.INTERVAL: {timedelta, _NONE},
}
"""The classes that Arrow's conversion treats as Runnel does, by kind."""


def _fits_as_it_is(natural: SqlType, sql_type: SqlType, values: Sequence[Any]) -> bool:
    """Whether values of type `natural` can be packed as `sql_type` without a conversion."""
    if natural.is_integer and sql_type.is_integer:
        limit = 1 << (INTEGER_WIDTHS[sql_type.kind] - 1)
        return all(value is None or -limit <= value < limit for value in values)
    if natural.kind is Kind.DECIMAL and sql_type.kind is Kind.DECIMAL:
        whole = natural.precision - natural.scale <= sql_type.precision - sql_type.scale
        return whole and natural.scale <= sql_type.scale
    if natural.is_interval and sql_type.kind is Kind.INTERVAL_MIXED:
        return all(value is None or not isinstance(value, int) for value in values)
    if natural.is_integer and sql_type.kind is Kind.INTERVAL_MONTH:
        return all(value is None or -(2**31) <= value < 2**31 for value in values)
    return False


def _alike(values: Sequence[Any], natural: SqlType, zone: str) -> list[Any]:
    """Values of several classes as the class that `natural` is packed from."""
    if natural.kind is Kind.DOUBLE:
        return [None if value is None else float(value) for value in values]
    if natural.kind is Kind.DECIMAL:
        return [None if value is None else Decimal(value) for value in values]
    if natural.kind is Kind.INTERVAL_MONTH:
        return [None if value is None else value.months for value in values]
    if natural.kind is Kind.TIMESTAMP:
        return [_midnight(value) for value in values]
    if natural.kind is Kind.TIMESTAMP_TZ:
        return [_aware(_midnight(value), zone) for value in values]
    return list(values)


def _midnight(value: Any) -> Any:
    """A date as its first instant; any other value as it is."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    return value


def _aware(value: Any, zone: str) -> Any:
    """A local time as the instant that `casts.temporal.instant` chooses.

    In a gap, the offset before the gap applies; of the two times of an overlap, the second is
    chosen.
    """
    from zoneinfo import ZoneInfo

    if value is None or value.tzinfo is not None:
        return value
    folds = [value.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1)]
    return min(folds, key=lambda local: local.utcoffset())


_PLAIN_CLASSES: dict[Kind, type] = {
    Kind.BOOLEAN: bool,
    Kind.BIGINT: int,
    Kind.DOUBLE: float,
    Kind.VARCHAR: str,
    Kind.VARBINARY: bytes,
    Kind.DATE: date,
    Kind.TIME: time,
}
"""The class whose values are packed without a further check, by kind."""


def plain_value(value: Any, *, keeps_uuids: bool = False) -> Any:
    """A Python value without the wrapper classes of numpy and pandas. A UUID becomes its text, or
    stays a UUID with `keeps_uuids`.
    """
    if type(value) in _TYPES and type(value) is not Interval:
        return value
    if isinstance(value, UUID):
        return value if keeps_uuids else str(value)
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    to_python = getattr(value, "to_pydatetime", None) or getattr(value, "to_pytimedelta", None)
    if to_python is not None:
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
            raise _too_fine(value)
        return to_python()
    if type(value).__module__ == "numpy":
        return (
            value.tolist()
            if not hasattr(value, "astype") or value.dtype.kind not in "mM"
            else _from_numpy_time(value)
        )
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Interval):
        return _plain_interval(value)
    if isinstance(value, (list, tuple)):
        return [
            None if item is None else plain_value(item, keeps_uuids=keeps_uuids) for item in value
        ]
    if isinstance(value, dict):
        return {
            str(key): None if item is None else plain_value(item, keeps_uuids=keeps_uuids)
            for key, item in value.items()
        }
    return value


def _plain_interval(value: Interval) -> Interval | timedelta:
    """The interval, or a timedelta if it has no months."""
    months, days, micros = value
    if months:
        return value
    try:
        return timedelta(days, microseconds=micros)
    except OverflowError:
        raise DataError(f"interval {value} is too long") from None


def _from_numpy_time(value: Any) -> Any:
    unit = "timedelta64[us]" if value.dtype.kind == "m" else "datetime64[us]"
    rounded = value.astype(unit)
    if (
        (rounded.astype(value.dtype) != value) & (rounded == rounded)
    ).any():  # only NaT differs from itself
        raise _too_fine(value)
    return rounded.tolist()


def _too_fine(value: Any) -> DataError:
    return DataError(
        f"value {value} has fractions of a microsecond, which would be lost",
        hint="round it to microseconds",
    )


_TYPES: dict[type, SqlType] = {
    bool: BOOLEAN,
    float: DOUBLE,
    str: VARCHAR,
    bytes: VARBINARY,
    date: DATE,
    time: TIME,
    timedelta: INTERVAL,
    Interval: INTERVAL_MONTH,
}
"""The SQL type of each class that has just one."""


def parameter_type(value: Any) -> SqlType:
    """The SQL type of an argument; ProgrammingError for a class that has none."""
    found = _TYPES.get(type(value))
    if found is not None and found.kind is not Kind.INTERVAL_MONTH:
        return found
    if type(value) is int and -(2**63) <= value < 2**63:
        return BIGINT
    return NULL if value is None else _type_of(plain_value(value, keeps_uuids=True))


def _type_of(value: Any) -> SqlType:
    if value is None:
        return NULL
    if isinstance(value, Interval):
        return INTERVAL_MIXED if value.days or value.microseconds else INTERVAL_MONTH
    for kind, sql_type in _TYPES.items():
        if type(value) is kind:
            return sql_type
    if isinstance(value, datetime):
        return TIMESTAMP if value.tzinfo is None else TIMESTAMP_TZ
    if isinstance(value, int) and not isinstance(value, bool):
        return BIGINT if -(2**63) <= value < 2**63 else _decimal_type(Decimal(value))
    if isinstance(value, Decimal):
        return _decimal_type(value)
    if isinstance(value, UUID):
        return SqlType(Kind.UUID)
    if isinstance(value, dict):
        return row(*((str(key), _type_of(item)) for key, item in value.items()))
    if isinstance(value, list):
        return _list_type(value)
    for kind, sql_type in _TYPES.items():
        if isinstance(value, kind):
            return sql_type
    raise ProgrammingError(
        f"cannot use a value of class {type(value).__name__} as an argument",
        hint="pass a number, str, bytes, date, time, datetime, timedelta, UUID, list or dict",
    )


def _decimal_type(value: Decimal) -> SqlType:
    """The smallest DECIMAL type for a value."""
    if not value.is_finite():
        raise DataError(f"DECIMAL can't hold {value}")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > MAX_PRECISION:
        raise DataError(f"value {value} has more than {MAX_PRECISION} digits")
    return decimal(precision, scale)


def _list_type(values: list[Any]) -> SqlType:
    element = NULL
    for item in values:
        found = common_type(element, _type_of(item))
        if found is None:
            raise ProgrammingError(f"a list argument mixes {element} and {_type_of(item)}")
        element = found
    return array(element)
