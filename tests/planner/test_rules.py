"""Each rule on relations built by hand: what it makes of them, and what it must leave alone."""

from __future__ import annotations

import pytest

from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.aggregates import aggregate_call
from runnel.expressions.nodes import Column, Expression, Literal, Parameter
from runnel.planner.describe import describe
from runnel.planner.explain import tree_text
from runnel.planner.rules import NECESSARY_RULES, RULES, apply
from runnel.planner.rules.build_side import choose_build_side
from runnel.planner.rules.column_pruning import prune_columns
from runnel.planner.rules.constant_folding import fold, fold_constants
from runnel.planner.rules.empty_relations import prune_empty
from runnel.planner.rules.join_keys import find_join_keys
from runnel.planner.rules.limit_pushdown import push_limits
from runnel.planner.rules.merging import merge_adjacent
from runnel.planner.rules.outer_joins import strengthen_outer_joins
from runnel.planner.rules.predicate_pushdown import push_predicates
from runnel.planner.rules.scan_filters import filter_into_scan
from runnel.planner.rules.subqueries import subqueries_to_joins
from runnel.relation import (
    Aggregate,
    Exists,
    Field,
    Filter,
    InSubquery,
    Join,
    JoinKind,
    Limit,
    OuterColumn,
    Project,
    Relation,
    ScalarSubquery,
    Scan,
    SetOperation,
    Sort,
    SortKey,
    Union,
    Unnest,
    Values,
)
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, VARCHAR
from tests.sample_tables import companies, events, lines, trades


def scan(table) -> Scan:
    return Scan(table=table, columns=tuple(range(len(table.columns))))


def column(relation: Relation, name: str, offset: int = 0) -> Column:
    index = [item.name for item in relation.fields].index(name)
    return Column(index=index + offset, name=name, type=relation.fields[index].type)


def number(value: int) -> Literal:
    return Literal(value=value, type=INTEGER)


def text(value: str) -> Literal:
    return Literal(value=value, type=VARCHAR)


TRUE = Literal(value=True, type=BOOLEAN)
FALSE = Literal(value=False, type=BOOLEAN)
UNKNOWN = Literal(value=None, type=BOOLEAN)


def project(relation: Relation, **expressions: Expression) -> Project:
    return Project(input=relation, expressions=tuple(expressions.values()), names=tuple(expressions))


def where(relation: Relation, *parts: Expression) -> Filter:
    return Filter(input=relation, condition=parts[0] if len(parts) == 1 else build.call("and", parts))


def both() -> tuple[Scan, Scan, int]:
    left, right = scan(trades()), scan(companies())
    return left, right, len(left.fields)


def join(kind: JoinKind, *parts: Expression) -> Join:
    left, right, width = both()
    condition = build.call("eq", [column(left, "ticker"), column(right, "__key", width)])
    for part in parts:
        condition = build.call("and", [condition, part])
    return Join(kind=kind, left=left, right=right, condition=condition)


def shown(relation: Relation) -> str:
    return "\n".join(tree_text(describe(relation)))


def kinds(relation: Relation) -> list[JoinKind]:
    own = [relation.kind] if isinstance(relation, Join) else []
    return own + [kind for item in relation.inputs for kind in kinds(item)]


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
def test_connectives_follow_three_valued_logic(function: str, parts: list[Expression], result: str) -> None:
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
    assert str(folded) == "((ticker IN ('A', 'B', 'C', 'D')) OR (quantity = 1) OR (quantity IS NULL))"
    assert str(fold(build.call("or", [parts[0], parts[2]]))) == "(ticker IN ('A', 'B'))"
    assert fold(build.call("or", [parts[0], parts[1]])) == build.call("or", [parts[0], parts[1]])


def test_not_before_a_test_becomes_the_opposite_test() -> None:
    quantity = column(scan(trades()), "quantity")
    for function, opposite in (("is_null", "is_not_null"), ("is_true", "is_not_true"), ("is_distinct", "is_not_distinct")):
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
    count = Aggregate(input=nothing, keys=(), aggregates=(aggregate_call("COUNT", []),), names=("n",))
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
def test_what_moves_past_each_kind_of_join(kind: JoinKind, left_moves: bool, right_moves: bool) -> None:
    left, right, width = both()
    on_left = build.call("is_null", [column(left, "quantity")])
    on_right = build.call("is_null", [column(right, "country", width)])
    pushed = push_predicates(where(join(kind), on_left, on_right))
    lines = shown(pushed).split("\n")
    assert ("    Filter (where: quantity IS NULL)" in lines or "  Filter (where: quantity IS NULL)" in lines) is left_moves
    assert ("    Filter (where: country IS NULL)" in lines or "  Filter (where: country IS NULL)" in lines) is right_moves


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
def test_what_a_join_condition_gives_to_its_sides(kind: JoinKind, left_moves: bool, right_moves: bool) -> None:
    left, right, width = both()
    on_left = build.call("is_null", [column(left, "quantity")])
    on_right = build.call("is_null", [column(right, "country", width)])
    pushed = push_predicates(join(kind, on_left, on_right))
    assert isinstance(pushed, Join)
    assert isinstance(pushed.left, Filter) is left_moves
    assert isinstance(pushed.right, Filter) is right_moves


def fallible(relation: Relation) -> Expression:
    quotient = build.call("divide", [number(10), column(relation, "quantity")])
    return build.call("gt", [quotient, number(1)])


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
    dice = build.call("lt", [build.call("RAND", []), Literal(value=0.5, type=build.call("RAND", []).type)])
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
    grouped = Aggregate(input=left, keys=(column(left, "ticker"),), aggregates=calls, names=("ticker", "n"))
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
    unnested = Unnest(input=source, array=column(source, "words"), name="word")
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
def test_a_filter_that_rejects_nulls_strengthens_the_join(kind: JoinKind, side: str, result: JoinKind) -> None:
    left, right, width = both()
    place = column(left, "quantity") if side == "left" else column(right, "size", width)
    assert kinds(strengthen_outer_joins(where(join(kind), build.call("gt", [place, number(1)])))) == [result]


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
        assert kinds(strengthen_outer_joins(where(join(JoinKind.LEFT), condition))) == [JoinKind.LEFT]


# join keys


def test_equalities_become_keys_over_each_side() -> None:
    found = find_join_keys(join(JoinKind.INNER))
    assert isinstance(found, Join)
    assert found.condition is None
    assert [str(key) for key in found.left_keys] == ["ticker"]
    assert [(str(key), key.index) for key in found.right_keys if isinstance(key, Column)] == [("__key", 0)]


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
    outer = choose_build_side(Join(kind=JoinKind.RIGHT, left=scan(companies()), right=scan(events())))
    assert kinds(outer) == [JoinKind.LEFT]
    refused = Join(kind=JoinKind.LEFT, left=scan(companies()), right=scan(events()))
    assert choose_build_side(refused) == refused


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
    count = Aggregate(input=scan(trades()), keys=(), aggregates=(aggregate_call("COUNT", []),), names=("n",))
    assert shown(prune_columns(count)) == "Aggregate (compute: COUNT(*))\n  Scan trades (columns: none)"


def test_unread_aggregates_go_but_a_global_row_stays() -> None:
    left = scan(trades())
    calls = (aggregate_call("COUNT", []), aggregate_call("MAX", [column(left, "price")]))
    bare = Aggregate(input=left, keys=(), aggregates=calls, names=("n", "m"))
    nothing = Project(input=bare, expressions=(number(1),), names=("one",))
    assert "Aggregate (compute: COUNT(*))" in shown(prune_columns(nothing))
    grouped = Aggregate(input=left, keys=(column(left, "ticker"),), aggregates=calls, names=("t", "n", "m"))
    only = project(grouped, m=column(grouped, "m"))
    assert "Aggregate (by: ticker; compute: MAX(price))" in shown(prune_columns(only))


def test_set_operations_keep_all_their_columns() -> None:
    left = scan(trades())
    both_sides = SetOperation(operation="intersect", all=False, left=left, right=left)
    one = project(both_sides, ticker=column(left, "ticker"))
    assert shown(prune_columns(one)).count("Scan trades (columns: __key, ticker, price, quantity, ts)") == 2


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
    assert shown(merge_adjacent(once)).startswith("Project (columns: LENGTH(UPPER(ticker)) AS l)\n  Scan")
    twice = project(lower, a=column(lower, "u"), b=column(lower, "u"))
    assert merge_adjacent(twice) == twice


def test_a_projection_of_literal_rows_is_put_into_them() -> None:
    one = Values(rows=((),), columns=())
    merged = merge_adjacent(Project(input=one, expressions=(number(1), text("a")), names=("x", "y")))
    assert merged == Values(rows=((number(1), text("a")),), columns=(Field("x", INTEGER), Field("y", VARCHAR)))


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
    relation = Limit(input=project(left, t=column(left, "ticker")), count=number(3), offset=number(2))
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
    filtered = Limit(input=where(left, build.call("is_null", [column(left, "ticker")])), count=number(3), offset=None)
    assert push_limits(filtered) == filtered
    joined = Limit(input=join(JoinKind.INNER), count=number(3), offset=None)
    assert push_limits(joined) == joined
    predicate = Limit(input=filter_into_scan(filtered.input), count=number(3), offset=None)
    assert push_limits(predicate) == predicate


# subqueries


def in_companies(operand: Expression) -> InSubquery:
    right = scan(companies())
    return InSubquery(operands=(operand,), relation=project(right, k=column(right, "__key")), type=BOOLEAN)


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
    assert kinds(subqueries_to_joins(where(left, in_companies(column(left, "ticker"))))) == [JoinKind.SEMI]
    negated = build.call("not", [in_companies(column(left, "ticker"))])
    assert kinds(subqueries_to_joins(where(left, negated))) == [JoinKind.NULL_ANTI]


def test_in_elsewhere_becomes_a_mark() -> None:
    left = scan(trades())
    either = build.call("or", [in_companies(column(left, "ticker")), build.call("is_null", [column(left, "ts")])])
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
    one = Aggregate(input=right, keys=(), aggregates=(aggregate_call("MAX", [column(right, "size")]),), names=("m",))
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
    assert shown(found).startswith("Filter (where: (10 / CAST(quantity AS BIGINT)) > 1)\n  Semi join")


def test_a_correlated_in_passes_the_columns_it_needs() -> None:
    left, right, _ = both()
    outer = OuterColumn(index=3, name="quantity", type=INTEGER)
    sized = where(right, build.call("gt", [column(right, "size"), outer]))
    inside = InSubquery(operands=(column(left, "ticker"),), relation=project(sized, k=column(right, "__key")), type=BOOLEAN)
    found = subqueries_to_joins(where(left, build.call("not", [inside])))
    assert isinstance(found, Join)
    assert found.kind is JoinKind.NULL_ANTI
    assert str(found.condition) == "(size > quantity)"
    assert [item.name for item in found.right.fields] == ["k", "size"]


def test_nested_subqueries_are_taken_apart_from_the_inside() -> None:
    left, right, _ = both()
    inner = Exists(
        relation=where(left, build.call("eq", [column(left, "ticker"), OuterColumn(index=1, name="name", type=VARCHAR)])),
        type=BOOLEAN,
    )
    outer = OuterColumn(index=1, name="ticker", type=VARCHAR)
    middle = where(right, build.call("eq", [column(right, "__key"), outer]), inner)
    found = subqueries_to_joins(where(left, Exists(relation=middle, type=BOOLEAN)))
    assert kinds(found) == [JoinKind.SEMI, JoinKind.SEMI]


def test_other_correlation_is_refused_with_its_remedy() -> None:
    left, right, _ = both()
    outer = OuterColumn(index=1, name="ticker", type=VARCHAR)
    matching = where(right, build.call("eq", [column(right, "__key"), outer]))
    limited = Limit(input=matching, count=number(3), offset=number(1))
    with pytest.raises(NotSupportedError, match='the outer column "ticker" is not supported') as refused:
        subqueries_to_joins(where(left, Exists(relation=limited, type=BOOLEAN)))
    assert refused.value.hint
    largest = Aggregate(input=matching, keys=(), aggregates=(aggregate_call("MAX", [column(right, "size")]),), names=("m",))
    with pytest.raises(NotSupportedError, match="scalar subquery that refers to the outer query") as refused:
        subqueries_to_joins(project(left, m=ScalarSubquery(relation=largest, type=INTEGER)))
    assert refused.value.hint


def test_a_subquery_in_an_outer_join_is_refused() -> None:
    left, _, _ = both()
    with pytest.raises(NotSupportedError, match="the condition of an outer join"):
        subqueries_to_joins(join(JoinKind.LEFT, in_companies(column(left, "ticker"))))
    inner = subqueries_to_joins(join(JoinKind.INNER, in_companies(column(left, "ticker"))))
    assert kinds(inner) == [JoinKind.SEMI, JoinKind.INNER]


# the tuple


def test_the_rules_print_as_their_names_in_order() -> None:
    assert repr(RULES[:2]) == "(subqueries to joins, constant folding)"
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
