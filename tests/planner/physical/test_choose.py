"""What physical operators are chosen: fusion, indexes, look-ups by key, and the refusal of endless
waits."""

from __future__ import annotations

import pytest

from runnel.catalog import Index, Snapshot
from runnel.connector import SinkRequest, WriteMode
from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import Call, Cast, Column, Expression, Literal, Parameter, SortKey
from runnel.planner.estimates import estimate
from runnel.planner.event_time.check import check_streaming
from runnel.planner.explain.explain import tree_text
from runnel.planner.explain.nodes import describe
from runnel.planner.operators.limits import PhysicalLimit
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.choose import choose, choose_write
from runnel.planner.physical.key_lookup import key_lookup
from runnel.planner.physical.nodes import Physical, column_names
from runnel.planner.rules import NECESSARY_RULES, apply
from runnel.relation.nodes import (
    Aggregate,
    Field,
    Filter,
    Generate,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    SetOperation,
    Sort,
    Union,
    Values,
)
from runnel.sqltypes import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, decimal
from tests.planner.relations import column, scan, text
from tests.sample_tables import INDEXES, SampleMap, companies, events, sample_snapshot, trades

NO_INDEXES = Snapshot({}, {}, 0)


def number(value: int) -> Literal:
    return Literal(value=value, type=INTEGER)


def compare(operator: str, left: Expression, right: Expression) -> Call:
    compared = build.call(operator, [left, right])
    assert isinstance(compared, Call)
    return compared


def project(relation: Relation, *names: str) -> Project:
    return Project(
        input=relation, expressions=tuple(column(relation, name) for name in names), names=names
    )


def where(relation: Relation, *parts: Expression) -> Filter:
    return Filter(
        input=relation, condition=parts[0] if len(parts) == 1 else build.call("and", parts)
    )


def shown(node: Physical) -> list[str]:
    return tree_text(describe(node))


def source(node: Physical) -> physical.SourceScan:
    assert isinstance(node, physical.SourceScan)
    return node


def lookup(relation: Relation, indexes: tuple[Index, ...] = INDEXES) -> str:
    chosen = choose(apply(relation), sample_snapshot(indexes))
    while not isinstance(chosen, physical.SourceScan):
        chosen = chosen.inputs[0]
    return describe(chosen).properties.get("index", "none")


# fusion


@pytest.mark.parametrize("rules", [NECESSARY_RULES, None])
def test_filter_and_projection_are_part_of_the_scan(rules) -> None:
    left = scan(trades())
    query = project(where(left, compare("gt", column(left, "quantity"), number(1))), "ticker")
    logical = apply(query) if rules is None else apply(query, rules)
    chosen = source(choose(logical, NO_INDEXES))
    assert chosen.condition is not None
    assert [str(item) for item in chosen.projections or ()] == ["ticker"]
    assert [item.name for item in chosen.fields] == ["ticker"]


def test_the_scan_reads_what_only_its_filter_needs_and_drops_it() -> None:
    left = scan(trades())
    query = project(where(left, compare("gt", column(left, "quantity"), number(1))), "ticker")
    chosen = source(choose(apply(query), NO_INDEXES))
    assert chosen.request.columns == (1, 3)
    assert str(chosen.request.predicate) == "(quantity > 1)"
    assert [item.index for item in chosen.projections or () if isinstance(item, Column)] == [0]
    assert isinstance(chosen.condition, Call)
    assert chosen.condition.arguments[0] == Column(index=1, name="quantity", type=INTEGER)


def test_what_can_fail_is_no_advice_to_the_table() -> None:
    left = scan(trades())
    risky = compare("gt", build.call("divide", [number(10), column(left, "quantity")]), number(1))
    chosen = source(
        choose(
            apply(where(left, compare("gt", column(left, "quantity"), number(0)), risky)),
            NO_INDEXES,
        )
    )
    assert str(chosen.request.predicate) == "(quantity > 0)"
    assert "10 / " in str(chosen.condition)


def test_a_limit_is_advice_only_where_no_condition_drops_rows() -> None:
    left = scan(trades())
    chosen = choose(apply(Limit(input=left, count=number(3), offset=None)), NO_INDEXES)
    assert source(chosen.inputs[0]).request.limit == 3
    filtered = where(left, compare("gt", column(left, "quantity"), number(1)))
    chosen = choose(apply(Limit(input=filtered, count=number(3), offset=None)), NO_INDEXES)
    assert source(chosen.inputs[0]).request.limit is None


def test_a_new_name_is_no_operator() -> None:
    left = scan(trades())
    calls = (aggregate_call("COUNT", []),)
    grouped = Aggregate(
        input=left, keys=(column(left, "ticker"),), aggregates=calls, names=("ticker", "$0")
    )
    renamed = Project(
        input=grouped,
        expressions=(column(grouped, "ticker"), column(grouped, "$0")),
        names=("t", "n"),
    )
    chosen = choose(apply(renamed), NO_INDEXES)
    assert isinstance(chosen, physical.HashAggregate)
    assert [item.name for item in chosen.fields] == ["t", "n"]


def test_a_sort_with_a_limit_keeps_only_the_first_rows() -> None:
    left = scan(trades())
    ordered = Sort(input=left, keys=(SortKey(column(left, "price")),))
    assert isinstance(
        choose(Limit(input=ordered, count=number(3), offset=number(1)), NO_INDEXES), physical.TopN
    )
    offset_only = choose(Limit(input=ordered, count=None, offset=number(1)), NO_INDEXES)
    assert isinstance(offset_only, PhysicalLimit)
    assert isinstance(offset_only.input, physical.PhysicalSort)


def test_distinct_aggregates_run_in_one_stage() -> None:
    left = scan(trades())
    calls = (aggregate_call("COUNT", [column(left, "ticker")], distinct=True),)
    chosen = choose(Aggregate(input=left, keys=(), aggregates=calls, names=("n",)), NO_INDEXES)
    assert isinstance(chosen, physical.HashAggregate)
    assert not chosen.two_stage


@pytest.mark.parametrize(
    ("kind", "rows", "divided"),
    [
        (JoinKind.INNER, 100, False),
        (JoinKind.INNER, 1_000_000, True),
        (JoinKind.RIGHT, 100, True),
        (JoinKind.FULL, 100, True),
        (JoinKind.NULL_ANTI, 1_000_000, False),
        (JoinKind.MARK, 1_000_000, False),
    ],
)
def test_when_both_sides_of_a_join_are_divided(kind: JoinKind, rows: int, divided: bool) -> None:
    table = companies()
    table.rows = rows
    left, right = scan(trades()), scan(table)
    keys = {"left_keys": (column(left, "ticker"),), "right_keys": (column(right, "__key"),)}
    chosen = choose(Join(kind=kind, left=left, right=right, **keys), NO_INDEXES)
    assert isinstance(chosen, physical.HashJoin)
    assert chosen.is_partitioned is divided


def test_a_write_gives_one_number() -> None:
    table = trades()
    chosen = choose_write(scan(table), NO_INDEXES, table, SinkRequest(WriteMode.SINK, (0, 1)))
    assert shown(chosen)[0] == "Write trades (mode: sink; columns: __key, ticker)  [~1 row]"
    assert [str(item.type) for item in chosen.fields] == ["BIGINT"]


def test_columns_of_a_batch_have_different_names() -> None:
    fields = tuple(Field(name, INTEGER) for name in ("x", "x", "y", "x"))
    assert column_names(fields) == ("x", "x_2", "y", "x_3")


# indexes


def test_an_equality_uses_an_index_of_any_kind() -> None:
    left = scan(trades())
    equal = compare("eq", text("A"), column(left, "ticker"))
    assert lookup(where(left, equal)) == "by_ticker (hash) where ticker = 'A'"
    either = build.call(
        "or", [equal, compare("eq", column(left, "ticker"), Parameter(index=0, type=VARCHAR))]
    )
    assert lookup(where(left, either)) == "by_ticker (hash) where ticker IN ('A', ?0)"
    listed = build.in_list(column(left, "ticker"), [text("A"), text("B")])
    assert lookup(where(left, listed)) == "by_ticker (hash) where ticker IN ('A', 'B')"


def test_a_range_uses_a_sorted_index_only() -> None:
    left = scan(trades())
    since = compare("ge", column(left, "ts"), Parameter(index=0, type=TIMESTAMP))
    until = compare("gt", Parameter(index=1, type=TIMESTAMP), column(left, "ts"))
    assert lookup(where(left, since)) == "by_ts (sorted) where ts >= ?0"
    assert lookup(where(left, since, until)) == "by_ts (sorted) where ts >= ?0 AND ts < ?1"
    assert lookup(where(left, compare("gt", column(left, "ticker"), text("A")))) == "none"


def test_no_index_for_other_types_columns_or_functions() -> None:
    left = scan(trades())
    other_type = Cast(operand=column(left, "ts"), type=VARCHAR)
    assert lookup(where(left, compare("eq", other_type, text("x")))) == "none"
    second = compare("eq", column(left, "price"), Literal(value=1, type=decimal(10, 2)))
    assert lookup(where(left, second)) == "none"
    either = build.call(
        "or",
        [
            compare("eq", column(left, "ticker"), text("A")),
            compare("eq", column(left, "quantity"), number(1)),
        ],
    )
    assert lookup(where(left, either)) == "none"


def test_an_equality_beats_a_range() -> None:
    left = scan(trades())
    since = compare("ge", column(left, "ts"), Parameter(index=0, type=TIMESTAMP))
    equal = compare("eq", column(left, "ticker"), text("A"))
    assert lookup(where(left, since, equal)).startswith("by_ticker")


@pytest.mark.parametrize("descending", [False, True])
def test_a_sorted_index_gives_the_order(descending: bool) -> None:
    left = scan(trades())
    keys = (
        SortKey(column(left, "ts"), descending, not descending),
        SortKey(column(left, "price"), descending, not descending),
    )
    ordered = Sort(input=left, keys=keys)
    chosen = choose(apply(ordered), sample_snapshot())
    assert isinstance(chosen, physical.IndexScan)
    assert chosen.lookup.ordered
    assert chosen.lookup.descending is descending
    limited = choose(
        apply(Limit(input=ordered, count=number(2), offset=number(1))), sample_snapshot()
    )
    assert isinstance(limited, PhysicalLimit)
    assert source(limited.input).request.limit == 3


def test_the_order_of_an_index_holds_through_projection_and_filter() -> None:
    left = scan(trades())
    since = compare("ge", column(left, "ts"), Parameter(index=0, type=TIMESTAMP))
    like = compare("eq", column(left, "quantity"), number(1))
    part = project(where(left, since, like), "ts", "ticker")
    chosen = choose(apply(Sort(input=part, keys=(SortKey(column(part, "ts")),))), sample_snapshot())
    assert isinstance(chosen, physical.IndexScan)
    assert shown(chosen)[0].startswith(
        "Scan trades (index: by_ts (sorted) where ts >= ?0, in order;"
    )
    limited = Limit(
        input=Sort(input=part, keys=(SortKey(column(part, "ts")),)), count=number(2), offset=None
    )
    assert source(choose(apply(limited), sample_snapshot()).inputs[0]).request.limit is None


@pytest.mark.parametrize(
    "keys",
    [
        [("price", False, True)],
        [("ts", False, True), ("price", True, False)],
        [("ts", False, False)],
        [("ts", False, True), ("ticker", False, True)],
    ],
)
def test_another_order_is_sorted(keys: list[tuple[str, bool, bool]]) -> None:
    left = scan(trades())
    order = tuple(
        SortKey(column(left, name), descending, nulls) for name, descending, nulls in keys
    )
    assert isinstance(
        choose(apply(Sort(input=left, keys=order)), sample_snapshot()), physical.PhysicalSort
    )


def test_a_table_that_can_only_be_written_is_refused() -> None:
    from runnel.catalog import Table, TableColumn

    class Sinkhole(Table):
        name, connector, columns = "sinkhole", "Sample", (TableColumn("a", INTEGER),)

        def row_count(self) -> int | None:
            return None

    with pytest.raises(NotSupportedError, match='mapping "sinkhole" can only be written to'):
        choose(scan(Sinkhole()), NO_INDEXES)


# look-ups by key


def by_key(table: SampleMap, value: Expression | None = None) -> Filter:
    left = scan(table)
    return where(
        left,
        compare("eq", column(left, "__key"), value or Parameter(index=0, type=left.fields[0].type)),
    )


def test_a_query_for_one_key_is_a_lookup() -> None:
    table = trades()
    found = key_lookup(apply(by_key(table)))
    assert found is not None
    assert found == (table, (Parameter(index=0, type=BIGINT),), (0, 1, 2, 3, 4), ())
    some = key_lookup(apply(project(by_key(table), "price", "__key")))
    assert some is not None
    assert some.columns == (2, 0)


def test_a_limit_on_one_row_says_nothing() -> None:
    some = project(by_key(trades()), "price")
    assert key_lookup(apply(Limit(input=some, count=number(1), offset=None))) is not None
    assert key_lookup(apply(Limit(input=some, count=number(0), offset=None))) is None
    assert key_lookup(apply(Limit(input=some, count=number(-1), offset=None))) is None
    assert key_lookup(apply(Limit(input=some, count=number(1), offset=number(1)))) is None
    assert (
        key_lookup(apply(Limit(input=some, count=Parameter(index=1, type=BIGINT), offset=None)))
        is None
    )


def test_a_lookup_may_compute_over_the_row() -> None:
    relation = by_key(trades())
    doubled = build.call("multiply", [column(relation, "quantity"), number(2)])
    found = key_lookup(apply(Project(input=relation, expressions=(doubled,), names=("d",))))
    assert found is not None
    assert found.columns is None
    assert [str(item) for item in found.expressions] == [str(doubled)]
    reads = [
        item.index for item in found.expressions[0].children[0].children if isinstance(item, Column)
    ]
    assert reads in ([3], [])


def test_an_exact_number_of_another_type_finds_the_key() -> None:
    left = scan(trades())
    wide = build.call("eq", [column(left, "__key"), Parameter(index=0, type=decimal(38, 0))])
    assert key_lookup(apply(where(left, wide))) is not None
    lossy = build.call("eq", [column(left, "__key"), Parameter(index=0, type=DOUBLE)])
    assert key_lookup(apply(where(left, lossy))) is None


def test_anything_more_is_no_lookup() -> None:
    left = scan(trades())
    key = compare("eq", column(left, "__key"), Parameter(index=0, type=BIGINT))
    others = [
        where(left, key, compare("eq", column(left, "quantity"), number(1))),
        where(left, compare("gt", column(left, "__key"), Parameter(index=0, type=BIGINT))),
        where(left, compare("eq", column(left, "quantity"), number(1))),
        where(left, compare("eq", column(left, "__key"), column(left, "__key"))),
        left,
    ]
    for relation in others:
        assert key_lookup(apply(relation)) is None


# streams


def test_what_a_stream_may_do() -> None:
    stream, table = scan(events()), scan(companies())
    width = len(stream.fields)
    equal = compare("eq", column(stream, "ticker"), column(table, "__key", width))
    joined = Join(kind=JoinKind.LEFT, left=stream, right=table, condition=equal)
    positive = where(stream, compare("gt", column(stream, "amount"), number(1)))
    for relation in (project(positive, "id"), joined, Union(parts=(stream, stream))):
        check_streaming(apply(relation))
        assert relation.never_ends
    limited = Limit(input=stream, count=number(3), offset=None)
    assert not limited.never_ends
    check_streaming(Sort(input=limited, keys=(SortKey(column(stream, "id")),)))


def test_what_a_stream_may_not_do() -> None:
    stream, table = scan(events()), scan(companies())
    counted = Aggregate(
        input=stream, keys=(), aggregates=(aggregate_call("COUNT", []),), names=("n",)
    )
    distinct = Aggregate(input=stream, keys=(column(stream, "id"),), aggregates=(), names=("id",))
    refused = {
        "streaming aggregation is supported only for window aggregation": counted,
        "streaming DISTINCT is supported only": distinct,
        "sorting is not supported for a streaming query": Sort(
            input=stream, keys=(SortKey(column(stream, "id")),)
        ),
        "EXCEPT is not supported for a streaming": SetOperation(
            operation="except", all=False, left=stream, right=stream
        ),
        "the right side of a LEFT JOIN cannot be a streaming source": Join(
            kind=JoinKind.LEFT, left=table, right=stream
        ),
        "the left side of a RIGHT JOIN cannot be": Join(
            kind=JoinKind.RIGHT, left=stream, right=table
        ),
        "a FULL JOIN cannot be": Join(kind=JoinKind.FULL, left=stream, right=table),
        "for stream-to-stream join": Join(kind=JoinKind.INNER, left=stream, right=stream),
        "a subquery cannot read a streaming source": Join(
            kind=JoinKind.SEMI, left=table, right=stream
        ),
    }
    for message, relation in refused.items():
        with pytest.raises(NotSupportedError, match=message) as raised:
            check_streaming(apply(relation))
        assert raised.value.hint


def test_a_stream_on_the_right_of_an_inner_join_changes_sides() -> None:
    joined = Join(kind=JoinKind.INNER, left=scan(companies()), right=scan(events()))
    check_streaming(apply(joined, NECESSARY_RULES))


# estimates


def test_estimates_follow_what_is_known() -> None:
    left = scan(trades())
    assert estimate(left) == 10_000
    assert estimate(where(left, compare("eq", column(left, "ticker"), text("A")))) == 1000
    assert estimate(where(left, compare("gt", column(left, "ticker"), text("A")))) == 2500
    assert estimate(Limit(input=left, count=number(7), offset=None)) == 7
    assert estimate(Union(parts=(left, left))) == 20_000
    assert estimate(scan(events())) is None
    assert estimate(Values(rows=((number(1),), (number(2),)), columns=(Field("a", INTEGER),))) == 2
    series = Generate(
        function="generate_series",
        arguments=(number(1), number(10), number(3)),
        columns=(Field("v", INTEGER),),
    )
    assert estimate(series) == 4
