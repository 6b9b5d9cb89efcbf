"""The options of the columns of a DataGen mapping: 'fields.<name>.kind' and so on.

Which options a column has depends on its type. The fields of a ROW have paths such as
'fields.address.street', the items of an ARRAY 'fields.tags.element'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from runnel.base.frozen import frozen
from runnel.connectors.datagen import values
from runnel.connectors.datagen.values import Maker
from runnel.connectors.options import Option, Options, boolean, choice, duration, integer
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.sqltypes import INTEGER_WIDTHS, Kind, SqlType

MOST_ROWS = 10**12
"""The maximum number of rows: sequences stay far from the limits of BIGINT."""

MOST_LENGTH = 65_536
"""The maximum length of a text, and of an array."""

DIGITS = 18
"""The digits of a DECIMAL that are generated, at most: they are computed as BIGINT."""

_SEQUENCES = frozenset({*INTEGER_WIDTHS, Kind.DECIMAL, Kind.REAL, Kind.DOUBLE, Kind.VARCHAR})
_TEXTS = (Kind.VARCHAR, Kind.VARBINARY)
_FLOATS = {Kind.REAL: 3.4028234663852886e38, Kind.DOUBLE: 1.7976931348623157e308}


@frozen
class GeneratedField:
    """A column, a field of a ROW, or the items of an ARRAY.

    path: its name in the options, such as "fields.id".
    type: its type.
    options: its own options, by the last part of their names.
    children: the fields of a ROW; the items of an ARRAY.
    """

    path: str
    type: SqlType
    options: dict[str, Option[Any]]
    children: tuple[GeneratedField, ...] = ()

    def all_options(self) -> list[Option[Any]]:
        """The options of this field and of the fields in it."""
        found = list(self.options.values())
        for child in self.children:
            found += child.all_options()
        return found


def field(path: str, sql_type: SqlType) -> GeneratedField:
    """The field of a type; NotSupportedError if its values cannot be generated."""
    kind = sql_type.kind
    found: list[Option[Any]] = [_share(f"{path}.null-rate")]
    children: tuple[GeneratedField, ...] = ()
    kinds: tuple[str, ...] = ("random",)
    if kind in _SEQUENCES:
        kinds = ("random", "sequence")
        limit = MOST_ROWS * 1000
        found += [integer(f"{path}.{end}", least=-limit, most=limit) for end in ("start", "end")]
    if sql_type.is_numeric:
        found += [_number(f"{path}.{end}", sql_type) for end in ("min", "max")]
    elif kind in _TEXTS:
        found += [integer(f"{path}.length", 100, most=MOST_LENGTH), boolean(f"{path}.var-len")]
    elif kind is Kind.ARRAY:
        found.append(integer(f"{path}.length", 3, most=MOST_LENGTH))
        assert sql_type.element is not None
        children = (field(f"{path}.element", sql_type.element),)
    elif kind is Kind.ROW:
        children = tuple(field(f"{path}.{name}", item) for name, item in sql_type.fields)
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        found.append(duration(f"{path}.max-past", 0))
    elif kind not in (Kind.BOOLEAN, Kind.DATE, Kind.TIME):
        raise NotSupportedError(
            f'a DataGen mapping can\'t have the column "{path.partition(".")[2]}" of type '
            f"{sql_type}",
            hint="declare it as computed: name AS expression; or compute it in the query",
        )
    found.append(choice(f"{path}.kind", kinds, "random"))
    by_suffix = {option.name.rpartition(".")[2]: option for option in found}
    return GeneratedField(path, sql_type, by_suffix, children)


def _share(name: str) -> Option[float]:
    def parse(value: str) -> float:
        number = float(value)
        if not 0 <= number <= 1:
            raise ValueError(value)
        return number

    return Option(name, parse, "a number from 0 to 1", 0.0)


def _range(sql_type: SqlType) -> tuple[int, int]:
    """The least and the greatest whole number, or digits of a DECIMAL, that are generated."""
    if sql_type.kind is Kind.DECIMAL:
        most = 10 ** min(sql_type.precision, DIGITS) - 1
        return -most, most
    half: int = 1 << (INTEGER_WIDTHS[sql_type.kind] - 1)
    return -half, half - 1


def _number(name: str, sql_type: SqlType) -> Option[Any]:
    """A bound of random numbers; of a DECIMAL its digits."""
    if sql_type.is_approximate:
        limit = _FLOATS[sql_type.kind]

        def parse_float(value: str) -> float:
            number = float(value)
            if not math.isfinite(number) or abs(number) > limit:
                raise ValueError(value)
            return number

        return Option(name, parse_float, f"a number of type {sql_type}")
    least, most = _range(sql_type)

    def parse(value: str) -> int:
        try:
            digits = Decimal(value.strip()).scaleb(sql_type.scale)
        except InvalidOperation:
            raise ValueError(value) from None
        if not digits.is_finite() or digits != digits.to_integral_value():
            raise ValueError(value)
        if not least <= digits <= most:
            raise ValueError(value)
        return int(digits)

    scaled = [str(Decimal(bound).scaleb(-sql_type.scale)) for bound in (least, most)]
    return Option(name, parse, f"a number of type {sql_type} from {scaled[0]} to {scaled[1]}")


def row_limit(item: GeneratedField, options: Options) -> int | None:
    """The number of rows after which a sequence ends; None without a sequence."""
    limits = [limit for child in item.children if (limit := row_limit(child, options)) is not None]
    if _is_sequence(item, options):
        bounds: list[Any] = [options.get(item.options[name]) for name in ("start", "end")]
        start, end = bounds
        for name, value in (("start", start), ("end", end)):
            if value is None:
                raise ProgrammingError(
                    f'option "{item.path}.{name}" of connector DataGen is missing',
                    hint=f"a sequence needs both: '{item.path}.start' = '1', "
                    f"'{item.path}.end' = '1000'",
                )
        _check_order(item, "start", start, "end", end)
        if item.type.is_exact:
            least, most = _range(item.type)
            if not least <= start * 10**item.type.scale <= end * 10**item.type.scale <= most:
                raise ProgrammingError(
                    f'the sequence of "{item.path}" does not fit {item.type}',
                    hint="use a wider type, such as BIGINT",
                )
        limits.append(end - start + 1)
    return min(limits, default=None)


def _is_sequence(item: GeneratedField, options: Options) -> bool:
    return options.get(item.options["kind"]) == "sequence"


def _check_order(item: GeneratedField, first: str, low: Any, last: str, high: Any) -> None:
    if low > high:
        raise ProgrammingError(
            f'option "{item.path}.{first}" of connector DataGen is above "{item.path}.{last}"',
            hint=f"set both, '{item.path}.{first}' the lower one",
        )


def _check_options(item: GeneratedField, options: Options) -> None:
    """Refuses options that have no effect for the kind of values."""
    is_sequence = _is_sequence(item, options)
    others = ("min", "max", "length", "var-len") if is_sequence else ("start", "end")
    for name in others:
        option = item.options.get(name)
        if option is not None and options.is_set(option):
            other = "random" if is_sequence else "sequence"
            raise ProgrammingError(
                f'option "{option.name}" of connector DataGen needs kind {other}',
                hint=f"add '{item.path}.kind' = '{other}', or leave '{option.name}' out",
            )


def maker(item: GeneratedField, options: Options) -> Maker:
    """The function that makes the values of a field."""
    _check_options(item, options)
    if _is_sequence(item, options):
        made = values.sequence(item.type, options.require(item.options["start"]))
    else:
        made = _random(item, options)
    rate = options.require(item.options["null-rate"])
    return values.with_nulls(item.path, rate, made) if rate else made


def _random(item: GeneratedField, options: Options) -> Maker:
    kind, path = item.type.kind, item.path

    def value(name: str) -> Any:
        return options.get(item.options[name])

    if kind is Kind.BOOLEAN:
        return values.random_flags(path)
    if item.type.is_numeric:
        return _random_numbers(item, value)
    if kind in _TEXTS:
        varies = bool(value("var-len"))
        return values.random_texts(path, item.type, value("length"), varies=varies)
    if kind is Kind.ARRAY:
        return values.arrays(item.type, value("length"), maker(item.children[0], options))
    if kind is Kind.ROW:
        return values.structs(item.type, [maker(child, options) for child in item.children])
    past = value("max-past") // 1000 if "max-past" in item.options else 0
    return values.times(path, item.type, past)


def _random_numbers(item: GeneratedField, value: Callable[[str], Any]) -> Maker:
    low, high = value("min"), value("max")
    if item.type.is_approximate:
        low, high = 0.0 if low is None else low, 1.0 if high is None else high
        _check_order(item, "min", low, "max", high)
        return values.random_floats(item.path, item.type, low, high)
    least, most = _range(item.type)
    if low is None:
        low = 0 if item.type.kind is Kind.DECIMAL and (high is None or high >= 0) else least
    high = most if high is None else high
    _check_order(item, "min", low, "max", high)
    return values.random_whole(item.path, item.type, low, high)


def width(item: GeneratedField, options: Options) -> int:
    """The bytes of a value, roughly."""
    inner = sum(width(child, options) for child in item.children)
    length = options.require(item.options["length"]) if "length" in item.options else 1
    return max(length * inner, inner, length, 8)
