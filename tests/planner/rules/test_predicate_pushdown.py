"""Filters on their way to the scans, and what becomes of outer joins.

Each rule works on relations built by hand: what it makes of them, and what it must leave alone.
"""

from __future__ import annotations

import pytest

from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import Literal, SortKey
from runnel.planner.rules.outer_joins import strengthen_outer_joins
from runnel.planner.rules.predicate_pushdown import push_predicates
from runnel.planner.rules.scan_filters import filter_into_scan
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Scan,
    SetOperation,
    Sort,
    Union,
)
from runnel.relation.unnest import Unnest
from runnel.sqltypes import BIGINT
from tests.planner.relations import (
    FALSE,
    both,
    column,
    fallible,
    join,
    kinds,
    number,
    project,
    scan,
    shown,
    text,
    where,
)
from tests.sample_tables import lines, trades

# predicate push-down


def test_a_filter_goes_to_the_side_that_it_reads() -> None:
    joined = join(JoinKind.INNER)
    left, right, width = both()
    relation = where(
        joined,
        build.call("gt", [column(left, "quantity"), number(5)]),
        build.call("eq", [column(right, "country", width), text("NL")]),
    )
    assert shown(push_predicates(relation)) == (
        "Inner join (where: ticker = __key)\n"
        "  Filter (where: quantity > 5)\n"
        "    Scan trades (columns: __key, ticker, price, quantity, ts)\n"
        "  Filter (where: country = 'NL')\n"
        "    Scan companies (columns: __key, name, country, size)"
    )


@pytest.mark.parametrize(
    ("kind", "left_moves", "right_moves"),
    [
        (JoinKind.INNER, True, True),
        (JoinKind.LEFT, True, False),
        (JoinKind.RIGHT, False, True),
        (JoinKind.FULL, False, False),
    ],
)
def test_what_moves_past_each_kind_of_join(
    kind: JoinKind, left_moves: bool, right_moves: bool
) -> None:
    left, right, width = both()
    on_left = build.call("is_null", [column(left, "quantity")])
    on_right = build.call("is_null", [column(right, "country", width)])
    pushed = push_predicates(where(join(kind), on_left, on_right))
    lines = shown(pushed).split("\n")
    assert (
        "    Filter (where: quantity IS NULL)" in lines
        or "  Filter (where: quantity IS NULL)" in lines
    ) is left_moves
    assert (
        "    Filter (where: country IS NULL)" in lines
        or "  Filter (where: country IS NULL)" in lines
    ) is right_moves


@pytest.mark.parametrize(
    ("kind", "left_moves", "right_moves"),
    [
        (JoinKind.LEFT, False, True),
        (JoinKind.RIGHT, True, False),
        (JoinKind.FULL, False, False),
        (JoinKind.SEMI, True, True),
        (JoinKind.ANTI, False, True),
        (JoinKind.MARK, False, True),
        (JoinKind.NULL_ANTI, False, True),
    ],
)
def test_what_a_join_condition_gives_to_its_sides(
    kind: JoinKind, left_moves: bool, right_moves: bool
) -> None:
    left, right, width = both()
    on_left = build.call("is_null", [column(left, "quantity")])
    on_right = build.call("is_null", [column(right, "country", width)])
    pushed = push_predicates(join(kind, on_left, on_right))
    assert isinstance(pushed, Join)
    assert isinstance(pushed.left, Filter) is left_moves
    assert isinstance(pushed.right, Filter) is right_moves


def test_what_can_fail_does_not_pass_a_join_that_drops_rows() -> None:
    left, _, _ = both()
    pushed = push_predicates(where(join(JoinKind.INNER), fallible(left)))
    assert isinstance(pushed, Join)
    assert isinstance(pushed.left, Scan)
    assert "10 / " in str(pushed.condition)
    kept = push_predicates(where(join(JoinKind.SEMI), fallible(left)))
    assert isinstance(kept, Filter)


def test_what_can_fail_passes_a_join_that_keeps_every_row() -> None:
    left, _, _ = both()
    pushed = push_predicates(where(join(JoinKind.LEFT), fallible(left)))
    assert isinstance(pushed, Join)
    assert isinstance(pushed.left, Filter)


def test_what_can_fail_does_not_overtake_what_guards_it() -> None:
    left, right, width = both()
    guard = build.call("is_not_null", [column(right, "size", width)])
    other = build.call("is_null", [column(left, "ticker")])
    pushed = push_predicates(where(join(JoinKind.LEFT), guard, fallible(left), other))
    assert isinstance(pushed, Filter)
    assert "10 / " in str(pushed.condition)
    assert isinstance(pushed.input, Join)
    assert shown(pushed.input.left).startswith("Filter (where: ticker IS NULL)")


def test_a_volatile_condition_stays_where_it_is() -> None:
    left = scan(trades())
    dice = build.call(
        "lt", [build.call("RAND", []), Literal(value=0.5, type=build.call("RAND", []).type)]
    )
    relation = where(project(left, ticker=column(left, "ticker")), dice)
    assert push_predicates(relation) == relation
    inner = where(join(JoinKind.INNER), dice)
    assert isinstance(push_predicates(inner), Filter)
    scanned = where(left, dice, build.call("is_null", [column(left, "ticker")]))
    assert shown(filter_into_scan(scanned)).split("\n")[0] == f"Filter (where: {str(dice)[1:-1]})"
    assert "where: ticker IS NULL" in shown(filter_into_scan(scanned))


def test_a_filter_passes_projections_sorts_and_unions_but_no_limit() -> None:
    left = scan(trades())
    part = project(left, t=column(left, "ticker"))
    condition = build.call("is_null", [column(part, "t")])
    union = Union(parts=(part, part))
    pushed = shown(push_predicates(where(union, condition)))
    assert pushed.count("    Filter (where: ticker IS NULL)\n      Scan trades") == 2
    ordered = Sort(input=part, keys=(SortKey(column(part, "t")),))
    assert isinstance(push_predicates(where(ordered, condition)), Sort)
    limited = where(Limit(input=part, count=number(3), offset=None), condition)
    assert push_predicates(limited) == limited


def test_a_filter_on_a_group_key_goes_below_the_aggregation() -> None:
    left = scan(trades())
    calls = (aggregate_call("COUNT", []),)
    grouped = Aggregate(
        input=left, keys=(column(left, "ticker"),), aggregates=calls, names=("ticker", "n")
    )
    on_key = build.call("eq", [column(grouped, "ticker"), text("A")])
    on_count = build.call("gt", [column(grouped, "n"), Literal(value=1, type=BIGINT)])
    assert shown(push_predicates(where(grouped, on_key, on_count))) == (
        "Filter (where: n > 1)\n"
        "  Aggregate (by: ticker; compute: COUNT(*))\n"
        "    Filter (where: ticker = 'A')\n"
        "      Scan trades (columns: __key, ticker, price, quantity, ts)"
    )
    bare = Aggregate(input=left, keys=(), aggregates=calls, names=("n",))
    assert push_predicates(where(bare, FALSE)) == where(bare, FALSE)


def test_a_filter_goes_to_both_sides_of_a_set_operation_unless_it_can_fail() -> None:
    left = scan(trades())
    part = project(left, quantity=column(left, "quantity"))
    both_sides = SetOperation(operation="except", all=False, left=part, right=part)
    pushed = push_predicates(where(both_sides, build.call("is_null", [column(part, "quantity")])))
    assert shown(pushed).count("Filter (where: quantity IS NULL)") == 2
    kept = where(both_sides, fallible(part))
    assert push_predicates(kept) == kept


def test_a_filter_passes_unnest_if_it_reads_the_input_only() -> None:
    source = scan(lines())
    unnested = Unnest(input=source, arrays=(column(source, "words"),), names=("word",))
    below = push_predicates(where(unnested, build.call("is_null", [column(source, "line")])))
    assert isinstance(below, Unnest)
    above = where(unnested, build.call("eq", [column(unnested, "word"), text("a")]))
    assert push_predicates(above) == above


# outer joins


@pytest.mark.parametrize(
    ("kind", "side", "result"),
    [
        (JoinKind.LEFT, "right", JoinKind.INNER),
        (JoinKind.LEFT, "left", JoinKind.LEFT),
        (JoinKind.RIGHT, "left", JoinKind.INNER),
        (JoinKind.FULL, "left", JoinKind.LEFT),
        (JoinKind.FULL, "right", JoinKind.RIGHT),
    ],
)
def test_a_filter_that_rejects_nulls_strengthens_the_join(
    kind: JoinKind, side: str, result: JoinKind
) -> None:
    left, right, width = both()
    place = column(left, "quantity") if side == "left" else column(right, "size", width)
    assert kinds(
        strengthen_outer_joins(where(join(kind), build.call("gt", [place, number(1)])))
    ) == [result]


def test_a_filter_that_is_true_for_nulls_does_not() -> None:
    left, right, width = both()
    place = column(right, "size", width)
    greater = build.call("gt", [place, number(1)])
    harmless = [
        build.call("is_null", [place]),
        build.call("or", [greater, build.call("is_null", [column(left, "ticker")])]),
        build.call("gt", [build.coalesce([place, number(5)]), number(1)]),
        build.call("is_not_true", [greater]),
        build.call("is_not_distinct", [place, place]),
    ]
    for condition in harmless:
        assert kinds(strengthen_outer_joins(where(join(JoinKind.LEFT), condition))) == [
            JoinKind.LEFT
        ]
