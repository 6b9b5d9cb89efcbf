"""What an expression gives in every row of the edge table: a value, or an error. By our operators,
and by an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.values import python_values
from runnel.expressions.nodes import Column, Expression, transform
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import Dialect, Rendering, RenderingContext
from runnel.sqltypes import Kind, SqlType, to_arrow
from tests.expressions.edge_values import same
from tests.rendering.edge_table import COLUMN_TEXTS, ROWS, arrays, value_number
from tests.rendering.function_cases import FunctionCase, columns_used

ZONE = "Europe/Berlin"
SESSION = RenderingContext((), ZONE, 1_700_000_000_123_456)
_CONTEXT = EvaluationContext((), SESSION.now, ZONE)


class Outcome(NamedTuple):
    """The values of all rows, None for those in `errors`."""

    values: list[Any]
    errors: list[int]


def own_outcome(case: FunctionCase) -> Outcome:
    """By our operators; kept, since every engine is compared with it."""
    known = _KNOWN.get((case.entry, case.shape))
    if known is None:
        known = _KNOWN[case.entry, case.shape] = _evaluated(case)
    return known


_KNOWN: dict[tuple[str, str], Outcome] = {}


def _evaluated(case: FunctionCase) -> Outcome:
    """Once for every combination of values. What our operators fail on is found by halving."""
    used = columns_used(case.expression)
    firsts, which = distinct_rows(tuple(used))
    columns = [arrays()[index].take(pa.array(firsts)) for index in used]
    evaluator = compile_expression(transform(case.expression, lambda node: _moved(node, used)))
    values: list[Any] = [None] * len(firsts)
    errors: set[int] = set()

    def run(low: int, high: int) -> None:
        frame = EvaluationInput(
            [item.slice(low, high - low) for item in columns], high - low, _CONTEXT
        )
        try:
            array = evaluate(evaluator, frame)
        except DataError:
            if high - low == 1:
                errors.add(low)
                return
            middle = (low + high) // 2
            run(low, middle)
            run(middle, high)
        else:
            values[low:high] = _plain(array, case.expression.type)

    run(0, len(firsts))
    return Outcome(
        [values[place] for place in which],
        [row for row, place in enumerate(which) if place in errors],
    )


@cache
def distinct_rows(used: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """The first row of every combination of values of some columns, and for each row the number of
    its combination."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts, which = [], []
    for row in range(ROWS):
        combination = tuple(value_number(index, row) for index in used)
        if combination not in numbers:
            numbers[combination] = len(firsts)
            firsts.append(row)
        which.append(numbers[combination])
    return firsts, which


def _moved(node: Expression, used: Sequence[int]) -> Expression:
    return replace(node, index=used.index(node.index)) if isinstance(node, Column) else node


def _plain(array: pa.Array, sql_type: SqlType) -> list[Any]:
    """Values in Python; as numbers where Python has none (a year beyond 9999)."""
    try:
        return python_values(array, sql_type)
    except (DataError, ValueError, OverflowError):
        return [None if not item.is_valid else item.value for item in array]


def rendered(case: FunctionCase, dialect: Dialect) -> str | None:
    """The engine's SQL; None where the case is refused. What a plan finds renderable must be so
    when it runs."""
    try:
        Rendering(dialect).expression(case.expression, COLUMN_TEXTS)
    except Unrenderable:
        return None
    return Rendering(dialect, SESSION).expression(case.expression, COLUMN_TEXTS)


def stored_type(sql_type: SqlType) -> pa.DataType:
    """The Arrow type in which an engine gives a value of the type."""
    return pa.int64() if sql_type.kind is Kind.INTERVAL else to_arrow(sql_type)


def difference(
    case: FunctionCase,
    own: Outcome,
    theirs: pa.Array,
    rows: Sequence[int] | None = None,
    relative: float = 0.0,
) -> str | None:
    """What an engine's column has otherwise than our values in `rows` (all of them); None where
    nothing."""
    wanted = stored_type(case.expression.type)
    if not _alike(theirs.type, wanted):
        return f"type {theirs.type} instead of {wanted}"
    if case.expression.type.kind is Kind.INTERVAL:
        theirs = theirs.cast(pa.duration("us"))
    elif theirs.type != wanted:
        theirs = theirs.cast(wanted)
    values = _plain(theirs, case.expression.type)
    if own.values == values:
        return None
    wrong = [
        i
        for i, pair in enumerate(zip(own.values, values, strict=True))
        if not same(*pair, relative)
    ]
    if not wrong:
        return None
    row = wrong[0] if rows is None else rows[wrong[0]]
    return (
        f"{len(wrong)} rows differ, {shown(case, row)}: {own.values[wrong[0]]!r}, there "
        f"{values[wrong[0]]!r}"
    )


def _alike(first: pa.DataType, second: pa.DataType) -> bool:
    """Names of list items and the unit of TIME are the door's business."""
    if pa.types.is_list(first) and pa.types.is_list(second):
        return _alike(first.value_type, second.value_type)
    if pa.types.is_time(first) and pa.types.is_time(second):
        return True
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return first.num_fields == second.num_fields
    return bool(first == second)


def shown(case: FunctionCase, row: int) -> str:
    """The arguments of a row."""
    found = []
    for index in columns_used(case.expression):
        item = arrays()[index][row]
        try:
            found.append(repr(item.as_py()))
        except (ValueError, OverflowError):
            found.append(str(item))
    return f"row {row} ({', '.join(found)})"
