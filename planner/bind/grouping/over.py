"""Binding of OVER. Each call becomes a WindowCall: its WINDOW definition is resolved and its frame
is checked.

The calls of a SELECT are collected separately, like its aggregates; a `WindowValue` represents each
of them until the SELECT is assembled. Windows are evaluated after GROUP BY, so the arguments of a
call may contain aggregates of the same SELECT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_names
from runnel.expressions.aggregates.window_functions import (
    WINDOW_FUNCTIONS,
    is_window_function,
    window_function_call,
)
from runnel.expressions.coercion import convert, takes_type
from runnel.expressions.nodes import Column, Expression, Literal, SortKey, walk
from runnel.planner.bind.grouping.aggregate import AggregateBinder
from runnel.planner.bind.ordering import sort_key
from runnel.planner.bind.scope import Scope
from runnel.planner.bind.select_parts import Aggregates, WindowValue
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.relation.nodes import Filter, Project, Relation, references
from runnel.relation.over import (
    UP_TO_PEERS,
    WHOLE_PARTITION,
    BoundKind,
    Exclusion,
    FrameBound,
    FrameUnit,
    Window,
    WindowCall,
    WindowFrame,
)
from runnel.relation.subqueries import Exists, InSubquery, OuterColumn, ScalarSubquery
from runnel.sqltypes import BIGINT, DOUBLE, INTERVAL, Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder

MakeBinder = Callable[[Scope, str, Aggregates | None], AggregateBinder]
"""Makes a binder over a scope; the text is the name of the clause, for messages."""


@frozen
class Definition:
    """A window definition, from the parentheses of OVER or from the WINDOW clause.

    partition: the PARTITION BY expressions.
    order: the ORDER BY keys.
    frame: the frame; None if none is written.
    """

    partition: tuple[Expression, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: WindowFrame | None = None


class WindowCalls:
    """The distinct window calls of one SELECT in order of appearance, and the definitions of its
    WINDOW clause."""

    def __init__(
        self, query: QueryBinder, scope: Scope, aggregates: Aggregates, make: MakeBinder
    ) -> None:
        """`make` makes the binders of the operands of window calls."""
        self.calls: list[WindowCall] = []
        self._numbers: dict[WindowCall, int] = {}
        self._query = query
        self._scope = scope
        self._aggregates = aggregates
        self._make = make
        self._named: dict[str, Definition] = {}

    def define(self, trees: Sequence[Any]) -> None:
        """Adds the definitions of the WINDOW clause; a definition may refer to the definitions
        before it."""
        for tree in trees:
            name = tree.this.name
            if name.lower() in self._named:
                raise ProgrammingError(
                    f'window "{name}" is defined twice', position=self._at(tree.this)
                )
            self._named[name.lower()] = self.definition(tree)

    def add(self, call: WindowCall) -> WindowValue:
        number = self._numbers.setdefault(call, len(self.calls))
        if number == len(self.calls):
            self.calls.append(call)
        return WindowValue(index=number, type=call.call.type, position=call.call.position)

    def binder(self, clause: str) -> AggregateBinder:
        """A binder for the operands of a window call, which may contain aggregates but no
        windows."""
        return self._make(self._scope, clause, self._aggregates)

    def definition(self, tree: Any) -> Definition:
        """The partition, order and frame of an exp.Window."""
        base = self._base(tree)
        binder = self.binder("OVER")
        partition = tuple(binder.bind(item) for item in tree.args.get("partition_by") or ())
        order = tree.args.get("order")
        environment = self._query.environment
        keys = (
            tuple(sort_key(binder.bind(item.this), item, environment) for item in order.expressions)
            if order is not None
            else ()
        )
        partition, keys = base.partition or tuple(dict.fromkeys(partition)), base.order or keys
        spec = tree.args.get("spec")
        if spec is None:
            return Definition(partition, keys, base.frame)
        return Definition(
            partition, keys, _FrameBinder(self._query, self._make, keys, self._at(tree)).bind(spec)
        )

    def _base(self, tree: Any) -> Definition:
        """The definition of the WINDOW clause that an OVER or a definition refers to.
        ProgrammingError if the reference overrides a clause that it may not override."""
        alias = tree.args.get("alias")
        if alias is None:
            return Definition()
        name = alias.name
        base = self._named.get(name.lower())
        if base is None:
            known = suggest(name, self._named, "define it: … WINDOW name AS (…)")
            raise ProgrammingError(
                f'window "{name}" does not exist', hint=known, position=self._at(alias)
            )
        has_order, has_frame = tree.args.get("order") is not None, tree.args.get("spec") is not None
        problem = None
        if tree.args.get("partition_by"):
            problem = f'PARTITION BY of window "{name}" can\'t be overridden'
        elif has_order and base.order:
            problem = f'ORDER BY of window "{name}" can\'t be overridden'
        elif base.frame is not None and (has_order or has_frame):
            problem = f'window "{name}" has a frame, so it cannot be extended'
        if problem is not None:
            raise ProgrammingError(
                problem, hint="write the complete window", position=self._at(alias)
            )
        return base

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._query.sql)


def window_value(
    tree: Any, windows: WindowCalls | None, query: QueryBinder, clause: str
) -> WindowValue:
    """Binds a call with OVER. ProgrammingError if `windows` is None: then the clause may have no
    window call."""
    position = position_of(tree, query.sql)
    called = _Called(tree.this)
    if windows is None:
        hints = {
            "WHERE": "filter with QUALIFY, or in an outer query",
            "HAVING": "filter with QUALIFY, or in an outer query",
        }
        raise ProgrammingError(
            f"window function {called.name.upper()} is not allowed in {clause}",
            hint=hints.get(clause, "compute it in a derived table first"),
            position=position_of(tree.this, query.sql) or position,
        )
    found = windows.definition(tree)
    binder = windows.binder("a window function")
    at = position_of(tree.this, query.sql)
    if not is_window_function(called.name):
        if not binder.is_aggregate(called.name):
            raise ProgrammingError(
                f"{called.written or 'this expression'} is neither a window function nor an "
                "aggregate function, so OVER "
                "can't follow",
                hint=suggest(called.name, map(str.upper, [*aggregate_names(), *WINDOW_FUNCTIONS])),
                position=at,
            )
        if called.ignore_nulls is not None:
            raise _no_nulls_option(called.name, at)
        frame = found.frame or (UP_TO_PEERS if found.order else WHOLE_PARTITION)
        call = binder.aggregate_of(called.tree, called.predicate)
        return windows.add(
            WindowCall(call=call, partition=found.partition, order=found.order, frame=frame)
        )
    function = WINDOW_FUNCTIONS[called.name.lower()]
    if called.predicate is not None:
        raise ProgrammingError(
            f"FILTER needs an aggregate function, which {function.name.upper()} isn't",
            position=at,
        )
    if any(isinstance(item, exp.Distinct) for item in called.arguments):
        raise ProgrammingError(
            f"DISTINCT needs an aggregate function, which {function.name.upper()} isn't",
            position=at,
        )
    if called.ignore_nulls is not None and not function.takes_ignore_nulls:
        raise _no_nulls_option(called.name, at)
    call = window_function_call(called.name, [binder.bind(item) for item in called.arguments], at)
    usual = UP_TO_PEERS if found.order else WHOLE_PARTITION
    return windows.add(
        WindowCall(
            call=call,
            partition=found.partition,
            order=found.order,
            frame=(found.frame or usual) if function.uses_frame else usual,
            ignore_nulls=bool(called.ignore_nulls),
        )
    )


def with_windows(
    relation: Relation, calls: Sequence[WindowCall], position: Position | None
) -> Window:
    """The relation with the values of the calls as its last columns."""
    names = tuple(f"${item.call.function}{i}" for i, item in enumerate(calls))
    return Window(input=relation, calls=tuple(calls), names=names, position=position)


def first_rows(
    relation: Relation, on: Sequence[Column], order: tuple[SortKey, ...], position: Position | None
) -> Relation:
    """DISTINCT ON: of each group of rows with equal values of `on`, the first row by `order`.

    ORDER BY must begin with the expressions of `on`.
    """
    for key in order[: len(on)]:
        if key.expression not in on:
            raise ProgrammingError(
                "ORDER BY must begin with the expressions of DISTINCT ON",
                hint="put them first, or use QUALIFY ROW_NUMBER() OVER (…) = 1",
                position=key.expression.position or position,
            )
    width = len(relation.fields)
    rest = tuple(key for key in order if key.expression not in on)
    call = WindowCall(
        call=window_function_call("row_number", (), position),
        partition=tuple(on),
        order=rest,
        frame=UP_TO_PEERS if rest else WHOLE_PARTITION,
    )
    numbered = Window(input=relation, calls=(call,), names=("$number",), position=position)
    number = references(numbered.fields)[width]
    condition = build.call("eq", (number, Literal(value=1, type=BIGINT)), position)
    first = Filter(input=numbered, condition=condition, position=position)
    names = tuple(item.name for item in relation.fields)
    return Project(
        input=first, expressions=references(relation.fields), names=names, position=position
    )


def _no_nulls_option(name: str, position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"IGNORE NULLS and RESPECT NULLS are not supported by {name.upper()}",
        hint="they are for LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE",
        position=position,
    )


class _Called:
    """The function before OVER.

    tree: the call of the function.
    name, written: the name in upper case, and the name as written.
    arguments: the arguments, without IGNORE NULLS and RESPECT NULLS.
    predicate: the condition of FILTER, or None.
    ignore_nulls: True for IGNORE NULLS, False for RESPECT NULLS, None for neither. They may be
        written after the parentheses or within them.
    """

    def __init__(self, tree: Any) -> None:
        self.predicate: Any = None
        self.ignore_nulls: bool | None = None
        tree = self._unwrapped(tree)
        call = function_call(tree.this if isinstance(tree, exp.WithinGroup) else tree)
        self.tree = tree
        self.name, arguments = ("", []) if call is None else call
        self.written = tree.name if isinstance(tree, exp.Anonymous) else self.name
        self.arguments = [self._unwrapped(item) for item in arguments]

    def _unwrapped(self, tree: Any) -> Any:
        while isinstance(tree, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            if isinstance(tree, exp.Filter):
                self.predicate = tree.expression.this
            else:
                self.ignore_nulls = isinstance(tree, exp.IgnoreNulls)
            tree = tree.this
        return tree


_UNITS = {unit.value: unit for unit in FrameUnit}
_EXCLUSIONS = {item.value: item for item in Exclusion}
_ORDER = list(BoundKind)
_TEMPORAL = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)


class _FrameBinder:
    """Binds a frame over the ORDER BY keys of its window."""

    def __init__(
        self,
        query: QueryBinder,
        make: MakeBinder,
        order: tuple[SortKey, ...],
        position: Position | None,
    ) -> None:
        self._query = query
        self._make = make
        self._order = order
        self._position = position

    def bind(self, tree: Any) -> WindowFrame:
        unit = _UNITS[str(tree.args["kind"]).upper()]
        if unit is FrameUnit.GROUPS and not self._order:
            raise ProgrammingError("a GROUPS frame needs ORDER BY", position=self._position)
        start = self._bound(tree, "start", unit)
        end = (
            self._bound(tree, "end", unit)
            if tree.args.get("end") is not None
            else FrameBound(BoundKind.CURRENT_ROW)
        )
        self._check_order(start.kind, end.kind)
        exclude = tree.args.get("exclude")
        words = "NO OTHERS" if exclude is None else str(getattr(exclude, "name", exclude)).upper()
        return WindowFrame(unit, start, end, _EXCLUSIONS[words])

    def _check_order(self, start: BoundKind, end: BoundKind) -> None:
        problem = None
        if start is BoundKind.UNBOUNDED_FOLLOWING:
            problem = "a frame can't start with UNBOUNDED FOLLOWING"
        elif end is BoundKind.UNBOUNDED_PRECEDING:
            problem = "a frame can't end with UNBOUNDED PRECEDING"
        elif _ORDER.index(start) > _ORDER.index(end):
            problem = f"a frame that starts with {_worded(start)} can't end with {_worded(end)}"
        if problem is not None:
            raise ProgrammingError(
                problem, hint="write the earlier bound first", position=self._position
            )

    def _bound(self, tree: Any, name: str, unit: FrameUnit) -> FrameBound:
        value, side = tree.args[name], str(tree.args.get(f"{name}_side") or "").upper()
        if isinstance(value, str):
            words = f"{value.upper()} {side}".strip()
            return FrameBound(BoundKind(words))
        kind = BoundKind(side)
        return FrameBound(kind, self._offset(value, unit))

    def _offset(self, tree: Any, unit: FrameUnit) -> Expression:
        position = position_of(tree, self._query.sql) or self._position
        if tree.find(exp.Column) is not None:
            raise ProgrammingError(
                "the offset of a frame can't refer to columns", position=position
            )
        bound = self._make(Scope(), "the offset of a frame", None).bind(tree)
        if any(
            isinstance(node, (Exists, InSubquery, ScalarSubquery, OuterColumn))
            for node in walk(bound)
        ):
            raise NotSupportedError(
                "a subquery as the offset of a frame is not supported",
                hint="use a number or a parameter",
                position=position,
            )
        bound = (
            self._range_offset(bound, position)
            if unit is FrameUnit.RANGE
            else _row_offset(bound, unit, position)
        )
        if isinstance(bound, Literal):
            _check_literal(bound, position)
        return bound

    def _range_offset(self, offset: Expression, position: Position | None) -> Expression:
        if len(self._order) != 1:
            raise ProgrammingError(
                "a RANGE frame with an offset needs exactly one ORDER BY key",
                hint="use ROWS or GROUPS",
                position=position,
            )
        key = self._order[0].expression.type
        target = _offset_type(key, offset)
        if target is None:
            offered = "a number" if key.is_numeric else "an INTERVAL"
            possible = key.is_numeric or key.is_temporal or key.is_interval
            raise ProgrammingError(
                f"a RANGE frame over {key} can't have an offset of type {offset.type}"
                if possible
                else (
                    "a RANGE frame with an offset needs an ORDER BY of numbers, dates, times or "
                    f"intervals, not {key}"
                ),
                hint=f"use {offered}" if possible else "use ROWS or GROUPS",
                position=position,
            )
        return convert(offset, target) if offset.type != target else offset


def _offset_type(key: SqlType, offset: Expression) -> SqlType | None:
    """The type to which an offset is converted before it is added to a key; None if it can't be
    added."""
    actual = offset.type
    if key.is_numeric:
        if takes_type(offset, key) and not actual.is_numeric:
            return BIGINT if key.is_integer else key
        if not actual.is_numeric:
            return None
        if key.is_approximate or actual.is_approximate:
            return DOUBLE
        return BIGINT if actual.is_integer else actual
    if key.is_interval:
        return key if actual == key or takes_type(offset, key) else None
    if key.kind in _TEMPORAL and actual.is_interval:
        return actual
    if key.is_temporal and (actual == INTERVAL or takes_type(offset, INTERVAL)):
        return INTERVAL
    return None


def _row_offset(offset: Expression, unit: FrameUnit, position: Position | None) -> Expression:
    if not (offset.type.is_integer or takes_type(offset, BIGINT)):
        raise ProgrammingError(
            f"the offset of a {unit.value} frame must be a whole number, not {offset.type}",
            position=position,
        )
    return convert(offset, BIGINT)


def _check_literal(offset: Literal, position: Position | None) -> None:
    if offset.value is None:
        raise ProgrammingError("the offset of a frame can't be NULL", position=position)
    if isinstance(offset.value, str):
        return
    if offset.value < type(offset.value)(0):
        raise ProgrammingError(
            "the offset of a frame can't be negative", hint=_DIRECTION, position=position
        )


_DIRECTION = "PRECEDING looks back, FOLLOWING forward"


def _worded(kind: BoundKind) -> str:
    return kind.value if kind.value.isupper() and " " in kind.value else f"an offset {kind.value}"
