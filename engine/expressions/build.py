"""The functions by which the binder builds expressions.

They resolve names, convert arguments, determine types, and raise errors with positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import isinf

from runnel.errors import (
    DataError,
    ErrorCode,
    NotSupportedError,
    Position,
    ProgrammingError,
    UndefinedFunction,
    suggest,
)
from runnel.expressions.coercion import (
    assign,
    cast,
    check_count,
    coerce,
    convert,
    explicit_cast,
    operand_types,
    read_arrays,
    read_numbers,
    retype_parameters,
)
from runnel.expressions.functions import FUNCTIONS, SQL_NAMES
from runnel.expressions.logic.comparison import comparison_type
from runnel.expressions.nodes import Call, Case, Expression, InList, Literal, Parameter
from runnel.expressions.time.temporal import keeps_offset
from runnel.sqltypes import (
    BOOLEAN,
    DOUBLE,
    JSON,
    MAX_PRECISION,
    Kind,
    SqlType,
    common_type,
    decimal,
    integer_type_of,
    loses_digits,
)

__all__ = [
    "assign",
    "call",
    "case",
    "cast",
    "coalesce",
    "coerce",
    "explicit_cast",
    "in_list",
    "is_function",
    "limited",
    "nullif",
    "number",
    "read_arrays",
    "signature_hint",
]

_ABOUT_ARGUMENTS = re.compile(r"argument \d+ of |\S+ expects ")
"""The beginning of the errors for wrong arguments, which show the parameters of the function."""

MAX_SIZE = 20_000
"""The largest permitted number of nodes of an expression."""

_LAZY = {"COALESCE", "NULLIF", "IFNULL", "IF"}
_FLINK_ONLY = {"DATE_FORMAT", "FROM_UNIXTIME", "UNIX_TIMESTAMP", "TO_TIMESTAMP_LTZ"}
_OTHER_FORMS = {
    *_FLINK_ONLY,
    *("TO_TIMESTAMP", "TO_DATE", "ENCODE", "DECODE", "HEX"),
    *("ARRAY_PREPEND", "ARRAY_SORT", "LIST_SORT", "SUBSTRING"),
    *("MAKE_DATE", "ISFINITE", "ISINF", "ELEMENT_AT", "TIME_BUCKET"),
    *("REGEXP_EXTRACT", "DATE_PART", "JSON_EXTRACT", "JSON_EXTRACT_STRING"),
}
"""The names of `other_forms` and `list_forms`; `_FLINK_ONLY` has those that have no other form."""


def is_function(name: str) -> bool:
    """Whether SQL can call a scalar function by this name (in any case)."""
    return name.upper() in SQL_NAMES or name.upper() in _LAZY or name.upper() in _FLINK_ONLY


def _unknown_hint(name: str, others: Iterable[str]) -> str | None:
    """The hint for the name of a function that does not exist."""
    from runnel.expressions.left_out import reason

    return reason(name) or suggest(name, [*SQL_NAMES, *_LAZY, *_FLINK_ONLY, *others])


def call(
    name: str,
    arguments: Sequence[Expression],
    position: Position | None = None,
    others: Iterable[str] = (),
    *,
    written: str | None = None,
) -> Expression:
    """A function call by SQL name in any case, or an operator by its key ("add", "eq", …).

    others: further names to suggest if there is no such function; read only then.
    written: the name as the user wrote it, for the error.
    """
    if name.upper() in _LAZY:
        return _lazy(name.upper(), arguments, position)
    if name.upper() in _OTHER_FORMS:
        # Loaded on first use: few statements call one of these.
        from runnel.expressions.other_forms import other_form

        found = other_form(name.upper(), arguments, position)
        if found is not None:
            return found
    name = _by_type(name, arguments)
    if name.upper() == "DATE_TRUNC" and len(arguments) == 3:
        # DATE_TRUNC(unit, x, zone) truncates the local time of a zone other than the session's.
        wall = call("at_time_zone", arguments[1:], position)
        cut = call(name, [arguments[0], wall], position)
        if wall.type.kind is Kind.TIMESTAMP and keeps_offset(cut):
            return call(
                "subtract", [arguments[1], call("subtract", [wall, cut], position)], position
            )
        return call("at_time_zone", [cut, arguments[2]], position)
    if name.upper() == "TIMEZONE" and len(arguments) == 2:
        return call("at_time_zone", arguments[::-1], position)
    function = FUNCTIONS.get(name) or SQL_NAMES.get(name.upper())
    if function is None:
        raise UndefinedFunction(
            f'function "{written or name}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=_unknown_hint(name, others),
            position=position,
        )
    if function.name == "negate" and len(arguments) == 1:
        folded = _negated_literal(arguments[0])
        if folded is not None:
            return folded
    try:
        bound, result = function.bind(function.name, arguments, position)
    except ProgrammingError as error:
        if error.hint is None and _ABOUT_ARGUMENTS.match(error.message):
            error.hint = signature_hint(name)
        raise
    return Call(function=function.name, arguments=bound, type=result, position=position)


def signature_hint(name: str) -> str | None:
    """The parameters of a function, as a hint: "LPAD(s VARCHAR, length BIGINT)"; None if SQL has no
    function of this name."""
    function = FUNCTIONS.get(name) or SQL_NAMES.get(name.upper())
    if function is None or not function.sql_names:
        return None
    shown = name.upper() if name.upper() in function.sql_names else function.sql_names[0]
    return f"write {shown}({function.arguments})"


def _by_type(name: str, arguments: Sequence[Expression]) -> str:
    """The function key that a name stands for with arguments of these types."""
    if name == "concat" and len(arguments) == 2:
        kinds = [item.type.kind for item in arguments]
        if Kind.ARRAY in kinds:
            others = [kind for kind in kinds if kind not in (Kind.ARRAY, Kind.NULL)]
            return (
                "array_cat"
                if not others
                else "array_append"
                if kinds[0] is Kind.ARRAY
                else "array_prepend"
            )
        if Kind.JSON in kinds and all(map(_is_json, arguments)):
            return "json_concat"
        if Kind.VARBINARY in kinds and set(kinds) <= {Kind.VARBINARY, Kind.NULL}:
            return "concat_binary"
        return name
    if name == "subtract" and arguments[0].type.kind is Kind.JSON:
        return "json_delete"
    if name.upper() == "LOG" and len(arguments) == 2:
        return "log_base"
    if name.upper() in _OF_ARGUMENTS:
        return _of_arguments(name, arguments)
    if not arguments or arguments[0].type.kind not in (Kind.ARRAY, Kind.MAP, Kind.VARBINARY):
        return name
    return _OF_TYPE.get((name.upper(), arguments[0].type.kind), name)


def _is_json(operand: Expression) -> bool:
    """Whether an operand of || is JSON next to a JSON value: a text literal is, if it can be read
    as JSON."""
    if isinstance(operand, Literal) and operand.type.kind is Kind.VARCHAR:
        try:
            convert(operand, JSON)
        except DataError:
            return False
        return True
    return operand.type.kind in (Kind.JSON, Kind.NULL)


_OF_ARGUMENTS = frozenset({"FORMAT", "EPOCH_MS", "MAKE_TIMESTAMP", "RANGE", "GENERATE_SERIES"})


def _of_arguments(name: str, arguments: Sequence[Expression]) -> str:
    """The function key for a name of `_OF_ARGUMENTS`. FORMAT has braces if its pattern is a literal
    with a brace and without a %; EPOCH_MS of an integer and MAKE_TIMESTAMP of one number convert
    to a timestamp; RANGE and GENERATE_SERIES of times are arrays of timestamps."""
    first = arguments[0] if arguments else None
    if name.upper() in ("RANGE", "GENERATE_SERIES"):
        of_times = any(item.type.is_temporal for item in arguments[:2])
        if name.upper() == "RANGE":
            return "time_range" if of_times else name
        return "time_series" if of_times else "array_series"
    if name.upper() == "FORMAT":
        text = str(first.value) if isinstance(first, Literal) else ""
        return "format_braces" if "{" in text and "%" not in text else name
    if first is None or len(arguments) != 1 or not first.type.is_integer:
        return name
    return "make_timestamp_ms" if name.upper() == "EPOCH_MS" else "make_timestamp_us"


_OF_TYPE = {
    ("LENGTH", Kind.ARRAY): "cardinality",
    ("LEN", Kind.ARRAY): "cardinality",
    ("REVERSE", Kind.ARRAY): "array_reverse",
    ("CONTAINS", Kind.ARRAY): "array_contains",
    ("CONCAT", Kind.ARRAY): "array_cat",
    ("CARDINALITY", Kind.MAP): "map_size",
    ("ELEMENT_AT", Kind.ARRAY): "subscript",
    ("LENGTH", Kind.VARBINARY): "octet_length",
    ("SUBSTRING", Kind.VARBINARY): "binary_substring",
    ("SUBSTR", Kind.VARBINARY): "binary_substring",
}
"""The function key for a SQL name whose first argument is of that kind."""


def number(text: str, position: Position | None) -> Literal:
    """A number with its SQL type: the narrowest integer type that holds it, DECIMAL for digits with
    a point, DOUBLE for a number with an exponent."""
    text = text.replace("_", "")
    if "e" in text.lower():
        value = float(text)
        if isinf(value):
            raise ProgrammingError(f"number {text[:40]} is too large for DOUBLE", position=position)
        return Literal(value=value, type=DOUBLE, position=position)
    digits = text.lstrip("-").replace(".", "", 1).lstrip("0") or "0"
    fraction = text.partition(".")[2]
    precision = max(len(digits), len(fraction), 1)
    if precision > MAX_PRECISION:
        raise ProgrammingError(
            f"a number of {precision} digits is too long for DECIMAL",
            hint=(
                f"DECIMAL holds {MAX_PRECISION} digits; write it with an exponent for a DOUBLE: 1e0"
            ),
            position=position,
        )
    if "." in text:
        return Literal(
            value=Decimal(text), type=decimal(precision, len(fraction)), position=position
        )
    kind = integer_type_of(int(text))
    return Literal(
        value=int(text) if kind.is_integer else Decimal(text), type=kind, position=position
    )


def _negated_literal(operand: Expression) -> Expression | None:
    """−5 as a literal, so that it gets the type of −5: the smallest BIGINT has no positive
    counterpart.

    None if the operand isn't a number literal.
    """
    if not isinstance(operand, Literal) or not operand.type.is_numeric or operand.value is None:
        return None
    value = -operand.value
    if operand.type.is_integer and value >= 2**63:
        return None
    is_whole = operand.type.is_integer or (
        operand.type.kind is Kind.DECIMAL and operand.type.scale == 0
    )
    if is_whole and -(2**63) <= value < 2**63 and abs(value) > 0:
        return Literal(
            value=int(value), type=integer_type_of(int(value)), position=operand.position
        )
    return Literal(value=value, type=operand.type, position=operand.position)


def _lazy(name: str, arguments: Sequence[Expression], position: Position | None) -> Expression:
    """A call of one of the functions that don't evaluate all their arguments for every row."""
    if name == "NULLIF":
        check_count(name, arguments, 2, position)
        return nullif(arguments[0], arguments[1], position)
    if name == "IF":
        if len(arguments) != 3:
            raise ProgrammingError("IF expects 3 arguments", position=position)
        return case(arguments[:1], arguments[1:2], arguments[2], position)
    return coalesce(arguments, position)


def case(
    conditions: Sequence[Expression],
    results: Sequence[Expression],
    otherwise: Expression | None = None,
    position: Position | None = None,
) -> Expression:
    """CASE WHEN … THEN … [ELSE …] END. For a simple CASE, the caller builds the comparisons."""
    tests = tuple(call("is_true", (condition,), condition.position) for condition in conditions)
    conditions = tuple(test.children[0] for test in tests)
    branches = coerce([*results, *([] if otherwise is None else [otherwise])], "CASE", position)
    last = None if otherwise is None else branches.pop()
    return limited(
        Case(
            conditions=conditions,
            results=tuple(branches),
            otherwise=last,
            type=branches[0].type,
            position=position,
        )
    )


def coalesce(arguments: Sequence[Expression], position: Position | None = None) -> Expression:
    """COALESCE, as a CASE that returns the first argument that isn't NULL."""
    if not arguments:
        raise ProgrammingError("COALESCE expects at least 1 argument", position=position)
    values = [
        item for value in coerce(arguments, "COALESCE", position) for item in _coalesced(value)
    ]
    if len(values) == 1:
        return values[0]
    tests = tuple(
        Call(function="is_not_null", arguments=(value,), type=BOOLEAN) for value in values[:-1]
    )
    return limited(
        Case(
            conditions=tests,
            results=tuple(values[:-1]),
            otherwise=values[-1],
            type=values[0].type,
            position=position,
        )
    )


def _coalesced(value: Expression) -> Sequence[Expression]:
    """The arguments of a COALESCE; any other expression alone. So a nested COALESCE is merged into
    the outer one.
    """
    if not isinstance(value, Case) or value.otherwise is None:
        return (value,)
    for test, result in zip(value.conditions, value.results, strict=True):
        if not (
            isinstance(test, Call)
            and test.function == "is_not_null"
            and test.arguments[0] is result
        ):
            return (value,)
    return (*value.results, value.otherwise)


def limited(expression: Expression) -> Expression:
    """Returns the expression, or raises ProgrammingError if it is too large.

    COALESCE, NULLIF, BETWEEN and a simple CASE contain an operand twice that the SQL text names
    once, so each level of nesting doubles the size.
    """
    left, stack = MAX_SIZE, [expression]
    while stack:
        left -= 1
        if left < 0:
            raise ProgrammingError(
                "the expression is too large",
                detail="each COALESCE, NULLIF, BETWEEN and CASE x WHEN around another doubles it",
                hint="compute the inner expression in a derived table",
                position=expression.position,
            )
        stack.extend(stack.pop().children)
    return expression


def nullif(left: Expression, right: Expression, position: Position | None = None) -> Expression:
    """NULLIF(left, right): NULL where the operands are equal, else `left`."""
    first, second = retype_parameters((left, right))
    equal = call("eq", (first, second), position)
    return limited(
        Case(
            conditions=(equal,),
            results=(Literal(value=None, type=first.type),),
            otherwise=first,
            type=first.type,
            position=position,
        )
    )


def in_list(
    operand: Expression, values: Sequence[Expression], position: Position | None = None
) -> Expression:
    """`operand IN (values)`: whether the operand equals one of the values.

    If all values are literals and parameters, they become lookups: one for each type in which
    values are compared with the operand. Otherwise the result is a chain of `=` and OR.
    """
    operand, *items = retype_parameters(read_numbers((operand, *values)))
    targets: dict[SqlType, SqlType] = {}
    for item in items:
        if item.type not in targets:
            common = comparison_type(operand.type, item.type)
            if common is None or common.kind is Kind.MAP:
                raise ProgrammingError(
                    f"cannot apply 'IN' operator to {operand_types((operand, item))}",
                    hint="add an explicit CAST",
                    position=item.position or position,
                )
            targets[item.type] = common
    chained = any(
        target.is_nested or target.kind is Kind.INTERVAL_MIXED for target in targets.values()
    )
    if chained or not all(isinstance(item, (Literal, Parameter)) for item in items):
        tests = [call("eq", (operand, item), item.position or position) for item in items]
    else:
        tests = _look_ups(operand, items, targets, position)
    return (
        tests[0]
        if len(tests) == 1
        else Call(function="or", arguments=tuple(tests), type=BOOLEAN, position=position)
    )


def _look_ups(
    operand: Expression,
    items: Sequence[Expression],
    targets: dict[SqlType, SqlType],
    position: Position | None,
) -> list[Expression]:
    """One InList for each type of comparison, and `=` for the values that don't fit in a list.

    These are the values that don't become a literal or parameter of the list's type, and numbers
    for which no type holds both their digits and the operand's.
    """
    lists: dict[SqlType, list[Expression]] = {}
    tests: list[Expression] = []
    exact = _exact_target(operand.type, targets)
    for item in items:
        if loses_digits(operand.type, item.type):
            tests.append(call("eq", (operand, item), item.position or position))
            continue
        target = targets[item.type]
        if exact is not None and target.is_exact:
            target = exact
        value = convert(item, target)
        if isinstance(value, (Literal, Parameter)):
            lists.setdefault(target, []).append(value)
        else:
            tests.append(call("eq", (operand, item), item.position or position))
    looked_up = [
        InList(
            operand=convert(operand, target), values=tuple(values), type=BOOLEAN, position=position
        )
        for target, values in lists.items()
    ]
    return [*looked_up, *tests]


def _exact_target(operand: SqlType, targets: dict[SqlType, SqlType]) -> SqlType | None:
    """The exact type that holds all values of the exact types among `targets`; None if there is
    none.
    """
    found = None
    for source, target in targets.items():
        if target.is_exact and not loses_digits(operand, source):
            if found is not None and loses_digits(found, target):
                return None
            found = target if found is None else common_type(found, target)
    return found


def uncompared_intervals(what: str, position: Position | None) -> NotSupportedError:
    """The error for a clause that would have to compare intervals of months and days."""
    return NotSupportedError(
        f"{what} can't compare intervals of months and days here",
        hint="compare EXTRACT(EPOCH FROM x), its number of seconds, instead",
        position=position,
    )
