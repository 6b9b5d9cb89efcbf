"""Join keys, build sides, and the rules as a whole.

Each rule works on relations built by hand: what it makes of them, and what it must leave alone.
"""

from __future__ import annotations

import pytest

from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression
from runnel.planner.rules import NECESSARY_RULES, RULES, apply
from runnel.planner.rules.build_side import choose_build_side
from runnel.planner.rules.join_keys import find_join_keys
from runnel.relation.nodes import Join, JoinKind, Project, Relation
from tests.planner.relations import (
    both,
    column,
    join,
    kinds,
    number,
    project,
    scan,
    shown,
    text,
    where,
)
from tests.sample_tables import companies, events, trades

# join keys


def test_equalities_become_keys_over_each_side() -> None:
    found = find_join_keys(join(JoinKind.INNER))
    assert isinstance(found, Join)
    assert found.condition is None
    assert [str(key) for key in found.left_keys] == ["ticker"]
    assert [(str(key), key.index) for key in found.right_keys if isinstance(key, Column)] == [
        ("__key", 0)
    ]


def test_the_keys_of_in_stay_alone() -> None:
    kept = join(JoinKind.NULL_ANTI)
    assert find_join_keys(kept) == kept


def test_an_equality_that_can_fail_is_a_key_only_if_it_is_first() -> None:
    left, right, width = both()
    quotient = build.call("divide", [number(10), column(left, "quantity")])
    risky = build.call("eq", [quotient, column(right, "size", width)])
    alone = Join(kind=JoinKind.INNER, left=left, right=right, condition=risky)
    assert len(_keys(find_join_keys(alone))) == 1
    second = find_join_keys(join(JoinKind.INNER, risky))
    assert len(_keys(second)) == 1
    assert str(risky) in str(getattr(second, "condition", None))


def _keys(relation: Relation) -> tuple[Expression, ...]:
    assert isinstance(relation, Join)
    return relation.left_keys


def test_a_comma_join_with_a_where_is_a_hash_join() -> None:
    left, right, width = both()
    crossed = Join(kind=JoinKind.CROSS, left=left, right=right)
    equal = build.call("eq", [column(left, "ticker"), column(right, "__key", width)])
    assert shown(apply(where(crossed, equal))).startswith("Inner join (on: ticker = __key)")


# build side


def test_the_smaller_side_is_built() -> None:
    small_left = Join(kind=JoinKind.INNER, left=scan(companies()), right=scan(trades()))
    turned = choose_build_side(small_left)
    assert turned.fields == small_left.fields
    assert isinstance(turned, Project)
    assert isinstance(turned.input, Join)
    assert turned.input.right == small_left.left
    assert choose_build_side(turned) == turned


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK, JoinKind.SINGLE])
def test_subquery_joins_keep_their_sides(kind: JoinKind) -> None:
    kept = Join(kind=kind, left=scan(companies()), right=scan(trades()))
    assert choose_build_side(kept) == kept


def test_an_unbounded_side_is_never_built_if_it_can_be_the_other() -> None:
    joined = Join(kind=JoinKind.INNER, left=scan(companies()), right=scan(events()))
    turned = choose_build_side(joined)
    assert isinstance(turned, Project)
    assert isinstance(turned.input, Join)
    assert turned.input.left.is_unbounded
    outer = choose_build_side(
        Join(kind=JoinKind.RIGHT, left=scan(companies()), right=scan(events()))
    )
    assert kinds(outer) == [JoinKind.LEFT]
    refused = Join(kind=JoinKind.LEFT, left=scan(companies()), right=scan(events()))
    assert choose_build_side(refused) == refused


# the tuple


def test_the_rules_print_as_their_names_in_order() -> None:
    assert repr(RULES[:2]) == "(subqueries to joins, interval keys)"
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert set(NECESSARY_RULES) < set(RULES)


def test_the_rules_reach_a_fixed_point_and_keep_names() -> None:
    left, right, width = both()
    relation = project(
        where(join(JoinKind.LEFT), build.call("eq", [column(right, "country", width), text("NL")])),
        a=column(left, "ticker"),
        b=column(right, "name", width),
    )
    once = apply(relation)
    assert once.fields == relation.fields
    assert apply(once) == once
