"""Partial aggregation: an engine groups the rows that it has, and Runnel combines the groups.

So the engine returns a few groups instead of all rows. This is possible for the rows of one side of
an inner join (they are grouped by the columns that the join and the groups above it read), for the
inputs of a UNION ALL, and below keys and conditions that the engine cannot compute: then it groups
by the columns that these read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.errors import Error
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.build import call, cast, coalesce, nullif
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Column, Expression, Literal, columns_of, conjuncts, transform
from runnel.expressions.nodes import walk as parts_of
from runnel.foreign.fragment import FragmentEngine
from runnel.planner.estimates import estimate
from runnel.planner.pushdown.split_plans import is_free, runs, unpredicated
from runnel.planner.rewriting import conjunction, shift, substitute
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    Union,
    references,
    walk,
)
from runnel.sqltypes import BIGINT, DOUBLE, Kind, SqlType, decimal

FEWEST_ROWS = 50_000
"""Fewer rows than this are read directly."""
FEWER = 8
"""The side of a join is grouped if it has at least this many times the rows of the other side,
which bounds the number of its groups."""

_FEW_VALUES = frozenset({Kind.DATE, Kind.BOOLEAN, Kind.TINYINT, Kind.SMALLINT, Kind.VARCHAR})
"""Types of columns that are likely to have few distinct values."""

_AS_THEY_ARE = ("min", "max", "bool_and", "every", "bool_or", "bit_and", "bit_or", "bit_xor")
_TWICE_OR_ONCE = ("min", "max", "bool_and", "every", "bool_or", "bit_and", "bit_or")
"""Aggregates whose value does not depend on how often a row occurs."""

_BIG = decimal(19, 0)


def partial_groups(
    node: Aggregate, engines: Sequence[FragmentEngine]
) -> tuple[Project, Aggregate] | None:
    """The aggregation over groups that an engine makes: what is above it, and the aggregation of
    these; None where that isn't possible, or not worth it."""
    if (
        node.is_unbounded
        or node.emission is not None
        or any(map(is_volatile, node.own_expressions))
    ):
        return None
    node = _over_plain(node)
    for engine in engines:
        if engine.is_apart:
            try:
                made = _union(engine, node) or _joined(engine, node) or _below(engine, node)
            except Error:  # an expression that can't be built of these
                made = None
            if made is not None:
                return made
    return None


def _over_plain(node: Aggregate) -> Aggregate:
    """The aggregation over what is below its projections."""
    below = node.input
    while isinstance(below, Project):
        expressions = below.expressions
        if any(is_volatile(item) for item in expressions):
            break
        node = node.map_expressions(lambda item, known=expressions: substitute(item, known))  # type: ignore[misc,assignment]
        below = below.input
        node = replace(node, input=below)
    return node


@frozen
class _Split:
    """How an aggregate is computed from partial aggregates.

    partial: the aggregates that the engine computes.
    merged: for each aggregate that combines partial results, a function from the columns of these
        results to the call.
    finished: a function from the values of `merged` to the value of the aggregate.
    """

    partial: tuple[AggregateCall, ...]
    merged: tuple[Callable[[Sequence[Expression]], AggregateCall], ...]
    finished: Callable[[Sequence[Expression]], Expression]


def _split(item: AggregateCall) -> _Split | None:
    """How to split an aggregate; None if it cannot be computed exactly from partial results."""
    if item.distinct or item.order or item.python is not None:
        return None
    kind = item.arguments[0].type if item.arguments else BIGINT
    if item.function in _AS_THEY_ARE:
        return _Split((item,), (_again(item.function, 0),), _first)
    if item.function in ("count", "count_star"):
        return _Split(
            (item,),
            (_again("sum", 0),),
            lambda values: coalesce([values[0], Literal(value=0, type=BIGINT)]),
        )
    if item.function not in ("sum", "avg") or (
        item.function == "avg" and kind.kind is Kind.DECIMAL
    ):
        return None
    if kind.kind is Kind.BIGINT:
        # A partial sum may overflow even if the total does not.
        item = replace(item, arguments=(cast(item.arguments[0], _BIG),))
    total = aggregate_call("sum", item.arguments, False, item.predicate, item.position)
    target = item.type
    if item.function == "sum":
        return _Split((total,), (_again("sum", 0),), lambda values: _as(values[0], target))
    number = aggregate_call("count", item.arguments, False, item.predicate, item.position)
    zero = Literal(value=0, type=BIGINT)
    return _Split(
        (total, number),
        (_again("sum", 0), _again("sum", 1)),
        lambda values: call(
            "divide", [_as(values[0], DOUBLE), cast(nullif(values[1], zero), DOUBLE)]
        ),
    )


def _again(function: str, index: int) -> Callable[[Sequence[Expression]], AggregateCall]:
    """A call of `function` over the partial result at `index`."""
    return lambda values: aggregate_call(function, [values[index]])


def _first(values: Sequence[Expression]) -> Expression:
    return values[0]


def _as(value: Expression, kind: SqlType) -> Expression:
    return value if value.type == kind else cast(value, kind)


def _is_there(engine: FragmentEngine, relation: Relation) -> bool:
    """Whether the engine has all tables of a relation, and enough rows of it to matter."""
    scans = [item for item in walk(relation) if isinstance(item, Scan)]
    if not scans or not all(engine.can_read(scan.table) for scan in scans):
        return False
    rows = estimate(relation)
    return rows is None or rows >= FEWEST_ROWS


def _bare(expression: Expression, by: int = 0) -> Expression:
    """The expression with column indexes reduced by `by`, and without names and positions, so that
    equal expressions compare equal."""

    def change(node: Expression) -> Expression:
        return (
            Column(index=node.index - by, name="", type=node.type)
            if isinstance(node, Column)
            else node
        )

    return transform(expression, change)


class _Groups:
    """The groups of a sub-plan, whose columns are those from `start` on of the rows above it: what
    they are by, and what is computed. The groups' columns take the place of the sub-plan's."""

    def __init__(self, relation: Relation, start: int = 0) -> None:
        self.relation = relation
        self._start = start
        self._end = start + len(relation.fields)
        self._by: list[Expression] = []
        self._calls: list[AggregateCall] = []

    def owns(self, expressions: Iterable[Expression]) -> bool:
        """Whether they read nothing but the sub-plan."""
        return all(
            self._start <= index < self._end for item in expressions for index in columns_of(item)
        )

    def reads(self, expressions: Iterable[Expression]) -> bool:
        return any(
            self._start <= index < self._end for item in expressions for index in columns_of(item)
        )

    def by(self, expression: Expression) -> None:
        """Groups by an expression over the sub-plan too."""
        own = _bare(expression, self._start)
        if own not in self._by:
            self._by.append(own)

    def by_columns(self, expression: Expression) -> bool:
        """Groups by the columns that an expression reads of the sub-plan; False where they may have
        many values."""
        for part in parts_of(expression):
            if (
                isinstance(part, Column)
                and self.owns([part])
                and _bare(part, self._start) not in self._by
            ):
                if part.type.kind not in _FEW_VALUES:
                    return False
                self.by(part)
        return True

    def compute(self, calls: Iterable[AggregateCall]) -> list[int]:
        """Computes these too; where they are among the partial results."""
        first = len(self._calls)
        self._calls += [
            item.map_expressions(lambda part: _bare(part, self._start)) for item in calls
        ]
        return list(range(first, len(self._calls)))

    def aggregate(self) -> Aggregate:
        names = (
            *(f"group{i}" for i in range(len(self._by))),
            *(f"part{i}" for i in range(len(self._calls))),
        )
        return Aggregate(
            input=self.relation, keys=tuple(self._by), aggregates=tuple(self._calls), names=names
        )

    def value(self, index: int) -> Column:
        """The column of a partial result, in the rows above the groups."""
        return Column(
            index=self._start + len(self._by) + index,
            name=f"part{index}",
            type=self._calls[index].type,
        )

    def moved(self, expression: Expression) -> Expression:
        """The expression over the rows above once the groups replace the subplan; LookupError if
        the groups do not have it."""
        own = columns_of(expression)
        if own and self.owns([expression]):
            local = _bare(expression, self._start)
            if local in self._by:
                at = self._by.index(local)
                return Column(index=self._start + at, name=f"group{at}", type=expression.type)
        if isinstance(expression, Column):
            if self.owns([expression]):
                raise LookupError(expression.name)
            grown = len(self._by) + len(self._calls) - (self._end - self._start)
            return replace(
                expression, index=expression.index + (grown if expression.index >= self._end else 0)
            )
        if not own:
            return expression
        return expression.with_children(tuple(self.moved(child) for child in expression.children))


def _combined(
    node: Aggregate,
    below: Relation,
    keys: Sequence[Expression],
    calls: Sequence[tuple[AggregateCall, _Split | None, list[Column]]],
) -> tuple[Project, Aggregate]:
    """The aggregation over `below`, in which the partial results are; and what is above it, with
    the columns of `node`."""
    merged: list[AggregateCall] = []
    uses = []
    for item, split, values in calls:
        uses.append(len(keys) + len(merged))
        merged += [item] if split is None else [merge(values) for merge in split.merged]
    names = (*node.names[: len(keys)], *(f"merged{i}" for i in range(len(merged))))
    final = Aggregate(
        input=below, keys=tuple(keys), aggregates=tuple(merged), names=names, position=node.position
    )
    columns = references(final.fields)
    results = [
        columns[place] if split is None else split.finished(columns[place:])
        for place, (_, split, _) in zip(uses, calls, strict=True)
    ]
    return Project(
        input=final,
        expressions=(*columns[: len(keys)], *results),
        names=node.names,
        position=node.position,
    ), final


def _union(engine: FragmentEngine, node: Aggregate) -> tuple[Project, Aggregate] | None:
    union = node.input
    splits = [_split(item) for item in node.aggregates]
    if not isinstance(union, Union) or None in splits:
        return None
    there = [_is_there(engine, part) for part in union.parts]
    if not any(there) or all(there):
        return None
    parts = []
    for part, is_there in zip(union.parts, there, strict=True):
        groups = _Groups(part)
        for key in node.keys:
            groups.by(key)
        places = [groups.compute(split.partial) for split in splits if split is not None]
        parts.append(groups.aggregate())
        if is_there and not runs(engine, parts[-1]):
            return None
    calls = [
        (item, split, [groups.value(place) for place in found])
        for item, split, found in zip(node.aggregates, splits, places, strict=True)
    ]
    keys = [groups.moved(key) for key in node.keys]
    return _combined(node, replace(union, parts=tuple(parts)), keys, calls)


def _below(engine: FragmentEngine, node: Aggregate) -> tuple[Project, Aggregate] | None:
    """Partial aggregation below keys or conditions that the engine cannot compute."""
    below, conditions = _unfiltered(node.input)
    splits = [_split(item) for item in node.aggregates]
    if (
        None in splits
        or not _is_there(engine, below)
        or not (node.keys or conditions)
        or any(map(is_volatile, conditions))
    ):
        return None
    there = [
        item
        for item in conditions
        if is_free(item) and runs(engine, Filter(input=below, condition=item))
    ]
    below = _filtered(below, there)
    conditions = [item for item in conditions if item not in there]
    if conditions and any(can_fail(item) for call in node.aggregates for item in call.expressions):
        return None
    groups = _Groups(below)
    for key in node.keys:
        if columns_of(key) and runs(
            engine, Aggregate(input=below, keys=(key,), aggregates=(), names=("key",))
        ):
            groups.by(key)
    if not all(groups.by_columns(item) for item in _not_yet(groups, (*node.keys, *conditions))):
        return None
    places = [groups.compute(split.partial) for split in splits if split is not None]
    part = groups.aggregate()
    if not part.keys or not runs(engine, part):
        return None
    calls = [
        (item, split, [groups.value(place) for place in found])
        for item, split, found in zip(node.aggregates, splits, places, strict=True)
    ]
    rows = _filtered(part, [groups.moved(item) for item in conditions])
    return _combined(node, rows, [groups.moved(key) for key in node.keys], calls)


def _not_yet(groups: _Groups, expressions: Iterable[Expression]) -> list[Expression]:
    """Those that the groups don't give yet."""
    found = []
    for item in expressions:
        try:
            groups.moved(item)
        except LookupError:
            found.append(item)
    return found


def _joined(engine: FragmentEngine, node: Aggregate) -> tuple[Project, Aggregate] | None:
    """Partial aggregation of one side of a join that the engine has, if it does not have the other
    side."""
    join, conditions = _unfiltered(node.input)
    if any(map(is_volatile, (*conditions, *join.own_expressions))):
        return None
    if (
        not isinstance(join, Join)
        or join.kind not in (JoinKind.INNER, JoinKind.SEMI)
        or join.null_safe
        or not join.left_keys
    ):
        return None
    for is_left in (True, False) if join.kind is JoinKind.INNER else (True,):
        own, other = (join.left, join.right) if is_left else (join.right, join.left)
        rows, others = estimate(own), estimate(other)
        if (
            _is_there(engine, own)
            and others is not None
            and (rows is None or rows >= FEWER * others)
        ):
            return _grouped_side(engine, node, join, conditions, is_left)
    return None


def _grouped_side(
    engine: FragmentEngine, node: Aggregate, join: Join, conditions: list[Expression], is_left: bool
) -> tuple[Project, Aggregate] | None:
    start = 0 if is_left else len(join.left.fields)
    groups = _Groups(join.left if is_left else join.right, start)
    if any(
        can_fail(item)
        for call in node.aggregates
        if groups.reads(call.expressions)
        for item in call.expressions
    ):
        return None  # the query would not have evaluated it for a row without a partner
    for key in join.left_keys if is_left else join.right_keys:
        groups.by(key if is_left else shift(key, start))
    for key in node.keys:
        if (
            columns_of(key)
            and groups.owns([key])
            and not isinstance(key, Column)
            and not can_fail(key)
        ):
            groups.by(key)
    others = (*conditions, *conjuncts(join.condition))
    if not all(groups.by_columns(item) for item in _not_yet(groups, (*node.keys, *others))):
        return None
    calls = _split_calls(groups, node.aggregates)
    if calls is None:
        return None
    part = groups.aggregate()
    if not runs(engine, part):
        return None
    keys = tuple(
        groups.moved(key if is_left else shift(key, start))
        for key in (join.left_keys if is_left else join.right_keys)
    )
    condition = None if join.condition is None else groups.moved(join.condition)
    if is_left:
        joined = replace(join, left=part, left_keys=keys, condition=condition)
    else:
        joined = replace(
            join,
            right=part,
            right_keys=tuple(shift(key, -start) for key in keys),
            condition=condition,
        )
    moved = [
        (
            item.map_expressions(groups.moved) if split is None else item,
            split,
            [groups.value(place) for place in places],
        )
        for item, split, places in calls
    ]
    rows = _filtered(joined, [groups.moved(item) for item in conditions])
    return _combined(node, rows, [groups.moved(key) for key in node.keys], moved)


def _split_calls(
    groups: _Groups, aggregates: Sequence[AggregateCall]
) -> list[tuple[AggregateCall, _Split | None, list[int]]] | None:
    """Each call with its split and the places of its partial results in `groups`; None where a call
    can't be split. A call over columns of the other side has no split: rows repeated by the join
    don't change its result."""
    calls: list[tuple[AggregateCall, _Split | None, list[int]]] = []
    for item in aggregates:
        if groups.reads(item.expressions) or not any(map(columns_of, item.expressions)):
            split = _split(item) if groups.owns(item.expressions) else None
            if split is None:
                return None
            calls.append((item, split, groups.compute(split.partial)))
        elif (
            (item.distinct or item.function in _TWICE_OR_ONCE)
            and not item.order
            and item.python is None
        ):
            calls.append((item, None, []))
        else:
            return None
    return calls


def _unfiltered(relation: Relation) -> tuple[Relation, list[Expression]]:
    """The relation below filters, and the conditions of the filters."""
    conditions: list[Expression] = []
    while isinstance(relation, Filter):
        conditions = conjuncts(relation.condition) + conditions
        relation = relation.input
    found = unpredicated(relation) if isinstance(relation, Scan) else None
    if found is not None:
        relation, conditions = found[0], conjuncts(found[1]) + conditions
    return relation, conditions


def _filtered(relation: Relation, conditions: Sequence[Expression]) -> Relation:
    condition = conjunction(conditions)
    return relation if condition is None else Filter(input=relation, condition=condition)
