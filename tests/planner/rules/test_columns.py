"""Columns that nobody reads, merged projections, limits.

Each rule works on relations built by hand: what it makes of them, and what it must leave alone.
"""

from __future__ import annotations

import pytest

from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.rules import apply
from runnel.planner.rules.column_pruning import prune_columns
from runnel.planner.rules.limit_pushdown import push_limits
from runnel.planner.rules.merging import merge_adjacent
from runnel.planner.rules.scan_filters import filter_into_scan
from runnel.relation.nodes import (
    Aggregate,
    Field,
    JoinKind,
    Limit,
    Project,
    Scan,
    SetOperation,
    Union,
    Values,
)
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR
from tests.planner.relations import (
    both,
    column,
    join,
    number,
    project,
    scan,
    shown,
    text,
    where,
)
from tests.sample_tables import trades

# columns


def test_unread_columns_are_not_scanned() -> None:
    left, right, width = both()
    joined = join(JoinKind.INNER)
    relation = project(joined, name=column(right, "name", width))
    pruned = shown(prune_columns(relation))
    assert "Scan trades (columns: ticker)" in pruned
    assert "Scan companies (columns: __key, name)" in pruned
    assert left.columns == (0, 1, 2, 3, 4)


def test_a_count_scans_no_column() -> None:
    count = Aggregate(
        input=scan(trades()), keys=(), aggregates=(aggregate_call("COUNT", []),), names=("n",)
    )
    assert (
        shown(prune_columns(count))
        == "Aggregate (compute: COUNT(*))\n  Scan trades (columns: none)"
    )


def test_unread_aggregates_go_but_a_global_row_stays() -> None:
    left = scan(trades())
    calls = (aggregate_call("COUNT", []), aggregate_call("MAX", [column(left, "price")]))
    bare = Aggregate(input=left, keys=(), aggregates=calls, names=("n", "m"))
    nothing = Project(input=bare, expressions=(number(1),), names=("one",))
    assert "Aggregate (compute: COUNT(*))" in shown(prune_columns(nothing))
    grouped = Aggregate(
        input=left, keys=(column(left, "ticker"),), aggregates=calls, names=("t", "n", "m")
    )
    only = project(grouped, m=column(grouped, "m"))
    assert "Aggregate (by: ticker; compute: MAX(price))" in shown(prune_columns(only))


def test_set_operations_keep_all_their_columns() -> None:
    left = scan(trades())
    both_sides = SetOperation(operation="intersect", all=False, left=left, right=left)
    one = project(both_sides, ticker=column(left, "ticker"))
    assert (
        shown(prune_columns(one)).count("Scan trades (columns: __key, ticker, price, quantity, ts)")
        == 2
    )


def test_a_mark_can_be_read_alone() -> None:
    joined = join(JoinKind.EXISTS_MARK)
    mark = Column(index=len(joined.left.fields), name="matched", type=BOOLEAN)
    pruned = prune_columns(project(joined, m=mark))
    assert shown(pruned) == (
        "Project (columns: matched AS m)\n"
        "  Exists mark join (where: ticker = __key)\n"
        "    Scan trades (columns: ticker)\n"
        "    Scan companies (columns: __key)"
    )


# merging and scans


def test_projections_merge_unless_work_would_be_repeated() -> None:
    left = scan(trades())
    upper = build.call("UPPER", [column(left, "ticker")])
    lower = project(left, u=upper)
    once = project(lower, l=build.call("CHAR_LENGTH", [column(lower, "u")]))
    assert shown(merge_adjacent(once)).startswith(
        "Project (columns: LENGTH(UPPER(ticker)) AS l)\n  Scan"
    )
    twice = project(lower, a=column(lower, "u"), b=column(lower, "u"))
    assert merge_adjacent(twice) == twice


def test_a_projection_of_literal_rows_is_put_into_them() -> None:
    one = Values(rows=((),), columns=())
    merged = merge_adjacent(
        Project(input=one, expressions=(number(1), text("a")), names=("x", "y"))
    )
    assert merged == Values(
        rows=((number(1), text("a")),), columns=(Field("x", INTEGER), Field("y", VARCHAR))
    )


def test_a_filter_becomes_the_predicate_over_the_table() -> None:
    table = trades()
    narrow = Scan(table=table, columns=(3, 1))
    found = filter_into_scan(where(narrow, build.call("is_null", [column(narrow, "ticker")])))
    assert isinstance(found, Scan)
    assert isinstance(found.predicate, Expression)
    assert [part.index for part in found.predicate.children if isinstance(part, Column)] == [1]


# limits


def test_a_limit_passes_a_projection_and_tells_the_scan() -> None:
    left = scan(trades())
    relation = Limit(
        input=project(left, t=column(left, "ticker")), count=number(3), offset=number(2)
    )
    assert shown(push_limits(relation)) == (
        "Project (columns: ticker AS t)\n"
        "  Limit (count: 3; offset: 2)\n"
        "    Scan trades (columns: __key, ticker, price, quantity, ts; limit: 5)"
    )


def test_a_limit_is_copied_before_a_union_once() -> None:
    left = scan(trades())
    relation = Limit(input=Union(parts=(left, left)), count=number(3), offset=None)
    pushed = push_limits(relation)
    assert shown(pushed).count("limit: 3") == 2
    assert push_limits(pushed) == pushed


@pytest.mark.parametrize("value", [-1, None])
def test_a_limit_that_is_an_error_stays_one(value: int | None) -> None:
    left = scan(trades())
    for below in (left, Union(parts=(left, Limit(input=left, count=number(5), offset=None)))):
        bad = Limit(input=below, count=Literal(value=value, type=BIGINT), offset=None)
        pushed = apply(bad)
        assert isinstance(pushed, Limit)
        assert pushed.count == bad.count


def test_a_limit_does_not_pass_a_filter_or_an_inner_join() -> None:
    left = scan(trades())
    filtered = Limit(
        input=where(left, build.call("is_null", [column(left, "ticker")])),
        count=number(3),
        offset=None,
    )
    assert push_limits(filtered) == filtered
    joined = Limit(input=join(JoinKind.INNER), count=number(3), offset=None)
    assert push_limits(joined) == joined
    predicate = Limit(input=filter_into_scan(filtered.input), count=number(3), offset=None)
    assert push_limits(predicate) == predicate
