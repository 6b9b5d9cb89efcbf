"""Subqueries as joins.

Each rule works on relations built by hand: what it makes of them, and what it must leave alone.
"""

from __future__ import annotations

import pytest

from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.planner.rules import apply
from runnel.planner.rules.decorrelation.subqueries import subqueries_to_joins
from runnel.relation.nodes import Aggregate, Field, Generate, Join, JoinKind, Limit, walk
from runnel.relation.subqueries import Exists, GroupLimit, InSubquery, OuterColumn, ScalarSubquery
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR
from tests.planner.relations import (
    both,
    column,
    fallible,
    in_companies,
    join,
    kinds,
    number,
    project,
    scan,
    shown,
    text,
    where,
)
from tests.sample_tables import companies, trades


def exists_company(correlated: bool = True) -> Exists:
    right = scan(companies())
    if not correlated:
        return Exists(relation=right, type=BOOLEAN)
    outer = OuterColumn(index=1, name="ticker", type=VARCHAR)
    equal = build.call("eq", [column(right, "__key"), outer])
    country = build.call("eq", [column(right, "country"), text("NL")])
    return Exists(relation=project(where(right, country, equal), one=number(1)), type=BOOLEAN)


def test_in_becomes_a_semi_and_not_in_a_null_aware_anti_join() -> None:
    left = scan(trades())
    assert kinds(subqueries_to_joins(where(left, in_companies(column(left, "ticker"))))) == [
        JoinKind.SEMI
    ]
    negated = build.call("not", [in_companies(column(left, "ticker"))])
    assert kinds(subqueries_to_joins(where(left, negated))) == [JoinKind.NULL_ANTI]


def test_in_elsewhere_becomes_a_mark() -> None:
    left = scan(trades())
    either = build.call(
        "or", [in_companies(column(left, "ticker")), build.call("is_null", [column(left, "ts")])]
    )
    found = subqueries_to_joins(where(left, either))
    assert kinds(found) == [JoinKind.MARK]
    assert found.fields == left.fields
    selected = subqueries_to_joins(project(left, m=in_companies(column(left, "ticker"))))
    assert kinds(selected) == [JoinKind.MARK]


def test_a_correlated_exists_becomes_a_semi_join_on_its_condition() -> None:
    left = scan(trades())
    found = apply(where(left, exists_company()))
    assert shown(found) == (
        "Semi join (on: ticker = __key)\n"
        "  Scan trades (columns: __key, ticker, price, quantity, ts)\n"
        "  Scan companies (columns: __key; where: country = 'NL')"
    )
    negated = subqueries_to_joins(where(left, build.call("not", [exists_company()])))
    assert kinds(negated) == [JoinKind.ANTI]
    selected = subqueries_to_joins(project(left, m=exists_company()))
    assert kinds(selected) == [JoinKind.EXISTS_MARK]


def test_an_uncorrelated_exists_reads_one_row() -> None:
    left = scan(trades())
    found = subqueries_to_joins(where(left, exists_company(correlated=False)))
    assert "  Limit (count: 1)" in shown(found)


def test_a_scalar_subquery_is_a_single_or_a_cross_join() -> None:
    left, right, _ = both()
    one = Aggregate(
        input=right,
        keys=(),
        aggregates=(aggregate_call("MAX", [column(right, "size")]),),
        names=("m",),
    )
    many = project(right, s=column(right, "size"))
    for relation, kind in ((one, JoinKind.CROSS), (many, JoinKind.SINGLE)):
        value = ScalarSubquery(relation=relation, type=INTEGER)
        condition = build.call("gt", [column(left, "quantity"), value])
        found = subqueries_to_joins(where(left, condition))
        assert kinds(found) == [kind]
        assert found.fields == left.fields


def test_conjuncts_around_subqueries_keep_their_order() -> None:
    left = scan(trades())
    relation = where(left, in_companies(column(left, "ticker")), fallible(left))
    found = apply(relation)
    assert shown(found).startswith(
        "Filter (where: (10 / CAST(quantity AS BIGINT)) > 1)\n  Semi join"
    )


def test_a_correlated_in_passes_the_columns_it_needs() -> None:
    left, right, _ = both()
    outer = OuterColumn(index=3, name="quantity", type=INTEGER)
    sized = where(right, build.call("gt", [column(right, "size"), outer]))
    inside = InSubquery(
        operands=(column(left, "ticker"),),
        relation=project(sized, k=column(right, "__key")),
        type=BOOLEAN,
    )
    found = subqueries_to_joins(where(left, build.call("not", [inside])))
    assert isinstance(found, Join)
    assert found.kind is JoinKind.NULL_ANTI
    assert str(found.condition) == "(size > quantity)"
    assert [str(key) for key in found.right_keys] == ["__key"]


def test_nested_subqueries_are_taken_apart_from_the_inside() -> None:
    left, right, _ = both()
    inner = Exists(
        relation=where(
            left,
            build.call(
                "eq", [column(left, "ticker"), OuterColumn(index=1, name="name", type=VARCHAR)]
            ),
        ),
        type=BOOLEAN,
    )
    outer = OuterColumn(index=1, name="ticker", type=VARCHAR)
    middle = where(right, build.call("eq", [column(right, "__key"), outer]), inner)
    found = subqueries_to_joins(where(left, Exists(relation=middle, type=BOOLEAN)))
    assert kinds(found) == [JoinKind.SEMI, JoinKind.SEMI]


def test_an_equality_needs_no_domain() -> None:
    left, right, _ = both()
    outer = OuterColumn(index=1, name="ticker", type=VARCHAR)
    matching = where(right, build.call("eq", [column(right, "__key"), outer]))
    largest = Aggregate(
        input=matching,
        keys=(),
        aggregates=(aggregate_call("MAX", [column(right, "size")]),),
        names=("m",),
    )
    found = subqueries_to_joins(project(left, m=ScalarSubquery(relation=largest, type=INTEGER)))
    assert kinds(found) == [JoinKind.LEFT]
    grouped = next(item for item in walk(found) if isinstance(item, Aggregate))
    assert [str(key) for key in grouped.keys] == ["__key"]


def test_any_other_condition_takes_the_domain() -> None:
    left, right, _ = both()
    outer = OuterColumn(index=1, name="ticker", type=VARCHAR)
    greater = where(right, build.call("gt", [column(right, "__key"), outer]))
    limited = Limit(input=greater, count=number(3), offset=number(1))
    found = subqueries_to_joins(where(left, Exists(relation=limited, type=BOOLEAN)))
    assert kinds(found) == [JoinKind.SEMI, JoinKind.INNER]
    assert any(isinstance(item, GroupLimit) for item in walk(found))
    assert any(isinstance(item, Aggregate) and not item.aggregates for item in walk(found))


def test_a_stream_has_no_domain() -> None:
    stream = Generate(
        function="generate_stream",
        arguments=(number(1),),
        columns=(Field("v", BIGINT),),
        unbounded=True,
    )
    _, right, _ = both()
    outer = OuterColumn(index=0, name="v", type=BIGINT)
    greater = where(right, build.call("gt", [build.cast(column(right, "size"), BIGINT), outer]))
    limited = Limit(input=greater, count=number(3), offset=number(1))
    with pytest.raises(NotSupportedError, match="not supported over a streaming source") as refused:
        subqueries_to_joins(where(stream, Exists(relation=limited, type=BOOLEAN)))
    assert refused.value.hint


def test_a_subquery_in_an_outer_join_is_joined_to_the_side_it_is_about() -> None:
    left, _, _ = both()
    outer = subqueries_to_joins(join(JoinKind.LEFT, in_companies(column(left, "ticker"))))
    assert kinds(outer) == [JoinKind.LEFT, JoinKind.MARK]
    assert outer.fields == join(JoinKind.LEFT, in_companies(column(left, "ticker"))).fields
    inner = subqueries_to_joins(join(JoinKind.INNER, in_companies(column(left, "ticker"))))
    assert kinds(inner) == [JoinKind.SEMI, JoinKind.INNER]
