"""LIMIT n %, and a sample of n %: the first rows of an order, up to a share of their number."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.aggregates.window_functions import window_function_call
from runnel.expressions.evaluate import evaluate_constant, is_constant
from runnel.expressions.nodes import Column, Expression, Literal, SortKey
from runnel.relation.nodes import Filter, Project, Relation, Sort, references
from runnel.relation.over import UP_TO_PEERS, WHOLE_PARTITION, Window, WindowCall
from runnel.sqltypes import BIGINT

_MOST_DECIMALS = 6


def percentage(bound: Expression, what: str, position: Position | None) -> Fraction:
    """The share that a percentage denotes, from 0 to 1; ProgrammingError for any other value."""
    if not is_constant(bound):
        raise NotSupportedError(
            f"{what} of a parameter or a subquery with % is not supported",
            hint="write the number into the statement",
            position=position,
        )
    value = evaluate_constant(bound)
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        raise ProgrammingError(f"{what} needs a number before %", position=position)
    if not 0 <= value <= 100:
        raise ProgrammingError(
            f"the percentage of {what} must be from 0 to 100, not {value}", position=position
        )
    return Fraction(str(round(Decimal(str(value)), _MOST_DECIMALS))) / 100


def limited_by_percent(
    relation: Relation, share: Fraction, offset: Expression | None, position: Position | None
) -> Relation:
    """The first rows of a relation after `offset` rows: a share of all its rows, rounded down."""
    if relation.never_ends:
        raise NotSupportedError(
            "LIMIT with % is not supported for a streaming query",
            detail="an input of this query has no end, so the number of its rows is never known",
            hint="write LIMIT with a number of rows",
            position=position,
        )
    projections: list[Project] = []
    below = relation
    while isinstance(below, Project) and all(type(item) is Column for item in below.expressions):
        projections.append(below)
        below = below.input
    if not isinstance(below, Sort):
        return first_share(relation, (), share, offset, position)
    limited: Relation = Sort(
        input=first_share(below.input, below.keys, share, offset, position),
        keys=below.keys,
        position=below.position,
    )
    for projection in reversed(projections):
        limited = projection.with_inputs((limited,))
    return limited


def first_share(
    relation: Relation,
    keys: tuple[SortKey, ...],
    share: Fraction,
    offset: Expression | None,
    position: Position | None,
) -> Relation:
    """The first rows by `keys`, in any order."""
    width = len(relation.fields)
    number_of_row = WindowCall(
        call=window_function_call("row_number", (), position),
        order=keys,
        frame=UP_TO_PEERS if keys else WHOLE_PARTITION,
    )
    all_rows = WindowCall(call=aggregate_call("count_star", [], False, None, position))
    counted = Window(
        input=relation, calls=(number_of_row, all_rows), names=("$row", "$rows"), position=position
    )
    columns = references(counted.fields)
    number: Expression = columns[width]
    conditions = []
    if offset is not None:
        conditions.append(build.call("gt", [number, offset], position))
        number = build.call("subtract", [number, offset], position)
    # number ≤ rows · share, without rounding: number · denominator ≤ rows · numerator.
    sides = [
        build.call("multiply", [operand, Literal(value=factor, type=BIGINT)], position)
        for operand, factor in (
            (number, share.denominator),
            (columns[width + 1], share.numerator),
        )
    ]
    conditions.append(build.call("le", sides, position))
    condition = build.call("and", conditions, position) if len(conditions) > 1 else conditions[0]
    return Project(
        input=Filter(input=counted, condition=condition, position=position),
        expressions=columns[:width],
        names=tuple(field.name for field in relation.fields),
        position=position,
    )
