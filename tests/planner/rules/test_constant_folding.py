"""Constant folding and the spread of emptiness.

Each rule works on relations built by hand: what it makes of them, and what it must leave alone.
"""

from __future__ import annotations

import pytest

from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import Expression, Literal, Parameter
from runnel.planner.rules.constant_folding import fold, fold_constants
from runnel.planner.rules.empty_relations import prune_empty
from runnel.relation.nodes import Aggregate, Field, Filter, Join, JoinKind, Union, Values
from runnel.sqltypes import INTEGER
from tests.planner.relations import (
    FALSE,
    TRUE,
    UNKNOWN,
    both,
    column,
    number,
    project,
    scan,
    shown,
    text,
    where,
)
from tests.sample_tables import companies, trades

# constant folding


def test_constants_are_computed_inside_out() -> None:
    total = build.call("add", [number(1), build.call("multiply", [number(2), number(3)])])
    folded = fold(total)
    assert isinstance(folded, Literal)
    assert folded.value == 7
    assert folded.type == total.type


def test_a_constant_that_fails_stays() -> None:
    division = build.call("divide", [number(1), number(0)])
    assert fold(division) == division


def test_a_case_loses_branches_never_taken_with_their_errors() -> None:
    division = build.call("divide", [number(1), number(0)])
    case = build.case([FALSE, UNKNOWN], [division, division], number(2))
    assert fold(case) == fold(build.case([FALSE], [division], number(2)))
    assert isinstance(fold(case), Literal)


def test_parameters_are_not_constants() -> None:
    total = build.call("add", [Parameter(index=0, type=INTEGER), number(1)])
    assert fold(total) == total


@pytest.mark.parametrize(
    ("function", "parts", "result"),
    [
        ("and", [TRUE, TRUE], "TRUE"),
        ("and", [TRUE, FALSE, UNKNOWN], "FALSE"),
        ("and", [TRUE, UNKNOWN], "NULL"),
        ("or", [FALSE, TRUE, UNKNOWN], "TRUE"),
        ("or", [FALSE, UNKNOWN], "NULL"),
        ("or", [FALSE, FALSE], "FALSE"),
    ],
)
def test_connectives_follow_three_valued_logic(
    function: str, parts: list[Expression], result: str
) -> None:
    assert str(fold(build.call(function, parts))) == result


def test_a_connective_keeps_what_decides() -> None:
    left = scan(trades())
    test = build.call("is_null", [column(left, "ticker")])
    assert fold(build.call("and", [TRUE, test])) == test
    kept = fold(build.call("or", [UNKNOWN, test]))
    assert str(kept) == "(NULL OR (ticker IS NULL))"


def test_equalities_of_one_column_joined_by_or_become_in() -> None:
    left = scan(trades())
    ticker, quantity = column(left, "ticker"), column(left, "quantity")
    parts = [
        build.call("eq", [ticker, text("A")]),
        build.call("eq", [quantity, number(1)]),
        build.call("eq", [text("B"), ticker]),
        build.in_list(ticker, [text("C"), text("D")]),
        build.call("is_null", [quantity]),
    ]
    folded = fold(build.call("or", parts))
    assert (
        str(folded) == "((ticker IN ('A', 'B', 'C', 'D')) OR (quantity = 1) OR (quantity IS NULL))"
    )
    assert str(fold(build.call("or", [parts[0], parts[2]]))) == "(ticker IN ('A', 'B'))"
    assert fold(build.call("or", [parts[0], parts[1]])) == build.call("or", [parts[0], parts[1]])


def test_not_before_a_test_becomes_the_opposite_test() -> None:
    quantity = column(scan(trades()), "quantity")
    for function, opposite in (
        ("is_null", "is_not_null"),
        ("is_true", "is_not_true"),
        ("is_distinct", "is_not_distinct"),
    ):
        operand = build.call("gt", [quantity, number(1)]) if function == "is_true" else quantity
        arguments = [operand, number(1)] if function == "is_distinct" else [operand]
        negated = build.call("not", [build.call(function, arguments)])
        assert fold(negated) == build.call(opposite, arguments)
        assert fold(build.call("not", [negated])) == build.call(function, arguments)


def test_a_filter_that_is_always_true_goes_and_one_that_never_is_empties() -> None:
    left = scan(trades())
    assert fold_constants(where(left, TRUE)) == left
    test = build.call("is_null", [column(left, "ticker")])
    for condition in (FALSE, UNKNOWN, build.call("and", [test, UNKNOWN])):
        emptied = prune_empty(fold_constants(Filter(input=left, condition=condition)))
        assert emptied == Values(rows=(), columns=left.fields)


# empty relations


def test_emptiness_spreads_as_far_as_it_is_certain() -> None:
    left, right, _ = both()
    nothing = Values(rows=(), columns=right.fields)
    for kind in (JoinKind.INNER, JoinKind.CROSS, JoinKind.SEMI, JoinKind.RIGHT):
        assert prune_empty(Join(kind=kind, left=left, right=nothing)) == Values(
            rows=(), columns=Join(kind=kind, left=left, right=nothing).fields
        )
    for kind in (JoinKind.ANTI, JoinKind.NULL_ANTI):
        assert prune_empty(Join(kind=kind, left=left, right=nothing)) == left
    for kind in (JoinKind.LEFT, JoinKind.FULL, JoinKind.MARK, JoinKind.SINGLE):
        kept = Join(kind=kind, left=left, right=nothing)
        assert prune_empty(kept) == kept


def test_a_false_condition_does_not_empty_the_preserved_side() -> None:
    left, right, _ = both()
    for kind in (JoinKind.RIGHT, JoinKind.LEFT, JoinKind.FULL):
        kept = Join(kind=kind, left=left, right=right, condition=FALSE)
        assert prune_empty(kept) == kept


def test_a_global_aggregate_over_nothing_keeps_its_row() -> None:
    nothing = Values(rows=(), columns=(Field("a", INTEGER),))
    count = Aggregate(
        input=nothing, keys=(), aggregates=(aggregate_call("COUNT", []),), names=("n",)
    )
    assert prune_empty(count) == count
    grouped = Aggregate(input=nothing, keys=(column(nothing, "a"),), aggregates=(), names=("a",))
    assert prune_empty(grouped) == Values(rows=(), columns=grouped.fields)


def test_empty_parts_of_a_union_go_and_names_stay() -> None:
    left = project(scan(trades()), a=column(scan(trades()), "ticker"))
    right = project(scan(companies()), b=column(scan(companies()), "name"))
    empty = Values(rows=(), columns=left.fields)
    pruned = prune_empty(Union(parts=(empty, right)))
    assert [item.name for item in pruned.fields] == ["a"]
    assert shown(pruned).startswith("Project (columns: b AS a)")
