"""Binding of IMPOSE_ORDER, TUMBLE, HOP, CUMULATE and SESSION in FROM.

In the tree, their tables are queries, and a PARTITION BY is a call among the arguments: see
`table_arguments`. Sizes must be constants, not parameters, because the planner computes with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import BoundRelation, Scope, ScopeColumn
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.planner.parse.query.table_arguments import PARTITION, WINDOW_FUNCTIONS
from runnel.planner.rules.constant_folding import fold
from runnel.relation.nodes import Filter, Project, Relation
from runnel.relation.streams import AssignWindows, ImposeOrder, WindowKind, WindowShape
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_PARAMETERS = {
    "IMPOSE_ORDER": ("input", "time_col", "lag"),
    "TUMBLE": ("input", "time_col", "window_size", "offset"),
    "HOP": ("input", "time_col", "window_size", "slide", "offset"),
    "CUMULATE": ("input", "time_col", "step", "window_size", "offset"),
    "SESSION": ("input", "time_col", "gap"),
}
_OTHER_NAMES = {
    "data": "input",
    "timecol": "time_col",
    "size": "window_size",
    "slide_size": "slide",
}
_EXAMPLES = {
    "IMPOSE_ORDER": "TABLE(IMPOSE_ORDER(TABLE t, DESCRIPTOR(time), INTERVAL '5' SECOND))",
    "TUMBLE": "TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' SECOND))",
    "HOP": (
        "TABLE(HOP(TABLE t, DESCRIPTOR(time), INTERVAL '10' SECOND, INTERVAL '1' SECOND)), with "
        "the size and the slide"
    ),
    "CUMULATE": (
        "TABLE(CUMULATE(TABLE t, DESCRIPTOR(time), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)), the "
        "step before the size"
    ),
    "SESSION": "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(time), INTERVAL '10' SECOND))",
}
_LARGEST = 2**63 - 1

MOST_WINDOWS = 1 << 32
"""A row in more windows than this is refused: its sizes probably have the wrong units."""


@frozen
class _Call:
    """A call of a window function.

    name: the name in upper case.
    arguments: the sqlglot trees by parameter name.
    keys: the sqlglot trees of PARTITION BY.
    is_positional: whether no argument has a name.
    position: of the function's name in the statement; None: unknown.
    """

    name: str
    arguments: dict[str, Any]
    keys: tuple[Any, ...]
    is_positional: bool
    position: Position | None


class WindowBinder:
    """Binds calls of these functions in FROM. The table of a call may be another call.

    item: binds the table of a call.
    """

    def __init__(
        self, binder: StatementBinder, item: Callable[[Any], BoundRelation], outer: Scope | None
    ) -> None:
        self._binder = binder
        self._item = item
        self._outer = outer

    def bind(self, tree: Any) -> BoundRelation:
        """The relation of a call. It has the columns of the call's table, with their names; for
        `TABLE t` they are qualified by t."""
        call = self._call(tree)
        bound = self._input(call)
        time = self._time(call, bound)
        if call.name == "IMPOSE_ORDER":
            return self._ordered(call, bound, time)
        shape = self._shape(call, time)
        keys = ExpressionBinder(self._binder, bound.scope, "PARTITION BY")
        windows = AssignWindows(
            input=bound.relation,
            shape=shape,
            time=time,
            partition=tuple(keys.bind(key) for key in call.keys),
            position=call.position,
        )
        width = len(bound.relation.fields)
        owners = {column.qualifier for column in bound.scope.columns}
        owner = owners.pop() if len(owners) == 1 else None
        added = [
            ScopeColumn(item.name, item.type, width + i, owner)
            for i, item in enumerate(windows.fields[width:])
        ]
        return BoundRelation(windows, Scope((*bound.scope.columns, *added), self._outer))

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._binder.sql)

    def _ordered(self, call: _Call, bound: BoundRelation, time: Column) -> BoundRelation:
        lag = self._constant(call, "lag", time)
        if lag < 0:
            raise ProgrammingError(
                "the lag of IMPOSE_ORDER can't be negative",
                hint="it is the maximum by which a row may be late",
                position=self._at(call.arguments["lag"]),
            )
        if not bound.relation.never_ends:
            return bound
        below, timeout = without_order(bound.relation)
        ordered = ImposeOrder(
            input=below,
            time=time.index,
            lag=lag,
            watermark=next(self._binder.watermarks),
            idle_timeout=timeout,
            position=call.position,
        )
        return BoundRelation(ordered, bound.scope)

    def _call(self, tree: Any) -> _Call:
        found = function_call(tree)
        assert found is not None
        name, arguments = found
        parameters = _PARAMETERS[name]
        trees: dict[str, Any] = {}
        keys: tuple[Any, ...] | None = None
        named = False
        for argument in arguments:
            partition = function_call(argument)
            if partition is not None and partition[0] == PARTITION:
                keys = self._keys(name, partition[1], keys, argument)
                continue
            if isinstance(argument, exp.Kwarg):
                key, value, named = argument.this.name.lower(), argument.expression, True
                key = _OTHER_NAMES.get(key, key)
            elif named:
                raise ProgrammingError(
                    "a named argument can't be followed by one without a name",
                    position=self._at(argument),
                )
            else:
                key, value = self._next_parameter(name, len(trees), argument), argument
            if key not in parameters:
                raise ProgrammingError(
                    f'{name} has no argument "{key}"',
                    hint=suggest(key, parameters, f"its arguments are {', '.join(parameters)}"),
                    position=self._at(argument),
                )
            if key in trees:
                raise ProgrammingError(
                    f'argument "{key}" of {name} is given twice', position=self._at(argument)
                )
            trees[key] = value
        missing = next((key for key in parameters if key not in trees and key != "offset"), None)
        if missing is not None:
            raise ProgrammingError(
                f'{name} needs the argument "{missing}"',
                hint=f"write {_EXAMPLES[name]}",
                position=self._at(tree),
            )
        return _Call(name, trees, keys or (), not named, self._at(tree))

    def _next_parameter(self, name: str, count: int, argument: Any) -> str:
        parameters = _PARAMETERS[name]
        if count == len(parameters):
            raise ProgrammingError(
                f"{name} accepts at most {len(parameters)} arguments",
                hint=f"write {_EXAMPLES[name]}",
                position=self._at(argument),
            )
        return parameters[count]

    def _keys(
        self, name: str, keys: list[Any], before: tuple[Any, ...] | None, tree: Any
    ) -> tuple[Any, ...]:
        if name != "SESSION":
            raise ProgrammingError(
                f"{name} has no PARTITION BY",
                hint="only SESSION has PARTITION BY: leave it out, and GROUP BY the columns",
                position=self._at(tree),
            )
        if before is not None:
            raise ProgrammingError("PARTITION BY is given twice", position=self._at(tree))
        return tuple(keys)

    def _input(self, call: _Call) -> BoundRelation:
        tree = call.arguments["input"]
        within = function_call(tree)
        if within is not None and within[0] in WINDOW_FUNCTIONS:
            return self.bind(tree)
        if within is not None:
            return self._item(exp.Table(this=tree))
        if isinstance(tree, exp.Subquery):
            table = named_table(tree)
            return self._item(tree if table is None else table)
        raise ProgrammingError(
            f"the first argument of {call.name} must be a table",
            hint="write TABLE and its name, a query in parentheses, or another table function",
            position=self._at(tree) or call.position,
        )

    def _time(self, call: _Call, bound: BoundRelation) -> Column:
        tree = call.arguments["time_col"]
        found = function_call(tree)
        if found is None or found[0] != "DESCRIPTOR":
            raise ProgrammingError(
                f"{call.name} needs DESCRIPTOR with the time column",
                hint=f"write {_EXAMPLES[call.name]}",
                position=self._at(tree) or call.position,
            )
        columns = found[1]
        if len(columns) != 1 or not isinstance(columns[0], exp.Column):
            raise ProgrammingError(
                "you must specify a single ordering column",
                hint="DESCRIPTOR needs the name of one column of the table",
                position=self._at(tree),
            )
        column = columns[0]
        own = Scope(bound.scope.columns)
        time = own.resolve(column.name, column.text("table") or None, self._at(column))
        assert isinstance(time, Column)
        return time

    def _shape(self, call: _Call, time: Column) -> WindowShape:
        sizes = {
            key: self._constant(call, key, time)
            for key in call.arguments
            if key not in ("input", "time_col")
        }
        for key, value in sizes.items():
            if value <= 0 and key != "offset":
                raise ProgrammingError(
                    f'argument "{key}" of {call.name} must be positive',
                    position=self._at(call.arguments[key]) or call.position,
                )
        kind = WindowKind[call.name]
        size = sizes["gap"] if kind is WindowKind.SESSION else sizes["window_size"]
        step = sizes.get("slide", sizes.get("step", 0))
        if kind is WindowKind.HOP and step > size and call.is_positional:
            # Flink's order: the slide, then the size.
            size, step = step, size
        if kind is WindowKind.HOP and step > size:
            raise ProgrammingError(
                "the slide of HOP is larger than the size of its windows, "
                "so rows between them would be lost",
                hint="a slide of at most the size has every row in a window",
                position=self._at(call.arguments["slide"]),
            )
        if kind is WindowKind.CUMULATE and size % step:
            raise ProgrammingError(
                "the window_size of CUMULATE must be a multiple of its step",
                hint="write the step first, then the size",
                position=self._at(call.arguments["window_size"]),
            )
        if step and size // step > MOST_WINDOWS:
            raise ProgrammingError(
                f"every row would be in {size // step} windows",
                hint="reduce the size, or increase the step",
                position=call.position,
            )
        # Windows repeat with a period, so an offset is reduced to less than one period.
        period = step if kind is WindowKind.HOP else size
        return WindowShape(kind, size, step, sizes.get("offset", 0) % period)

    def _constant(self, call: _Call, key: str, time: Column) -> int:
        """The value of a size argument in the units of the time column."""
        tree = call.arguments[key]
        position = self._at(tree) or call.position
        value = fold(ExpressionBinder(self._binder, Scope(), call.name).bind(tree))
        if value.type.kind is Kind.INTERVAL_MONTH and time.type.is_temporal:
            raise ProgrammingError(
                f'argument "{key}" of {call.name} can\'t be an interval of months or years',
                hint="months differ in length: use days, as in INTERVAL '30' DAY",
                position=position,
            )
        is_number = time.type.is_integer and value.type.is_integer
        if not is_number and not (time.type.kind in _TEMPORAL and value.type.kind is Kind.INTERVAL):
            raise ProgrammingError(
                f"the descriptor column type ({time.type}) and the interval type ({value.type}) do "
                "not match",
                hint=_remedy(time),
                position=position,
            )
        if not isinstance(value, Literal):
            raise NotSupportedError(
                f'argument "{key}" of {call.name} must be a constant',
                hint="write the value as a literal: the plan depends on it",
                position=position,
            )
        if value.value is None:
            raise ProgrammingError(
                f'argument "{key}" of {call.name} can\'t be NULL', position=position
            )
        units = (
            value.value // timedelta(microseconds=1)
            if value.type.kind is Kind.INTERVAL
            else int(value.value)
        )
        if abs(units) > _LARGEST:
            raise ProgrammingError(
                f'argument "{key}" of {call.name} is out of range', position=position
            )
        return int(units)


_TEMPORAL = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)


def _remedy(time: Expression) -> str:
    if time.type.is_integer:
        return "over an integer column it is an integer"
    if time.type.kind in _TEMPORAL:
        return "over a temporal column it is a day-time interval, as INTERVAL '10' SECOND"
    return "the column must be an integer, a DATE or a TIMESTAMP: CAST it in a subquery"


def without_order(relation: Relation) -> tuple[Relation, int | None]:
    """Returns the relation without the imposed order of its table (or of a view of the table),
    because another imposed order replaces it; and the mapping's idle timeout, which still
    applies."""
    if isinstance(relation, ImposeOrder):
        return without_order(relation.input)[0], relation.idle_timeout
    if isinstance(relation, Project | Filter):
        below, timeout = without_order(relation.input)
        return relation if below is relation.input else replace(relation, input=below), timeout
    return relation, None


def named_table(tree: Any) -> Any:
    """The table of `(SELECT * FROM table)`, which the token pass writes for `TABLE name`; None for
    any other query."""
    query = tree.this
    if not isinstance(query, exp.Select) or any(
        tree.args.get(key) for key in ("alias", "joins", "order", "limit", "offset")
    ):
        return None
    clauses = {key for key, value in query.args.items() if value}
    plain = clauses == {"expressions", "from_"} and len(query.expressions) == 1
    star = query.expressions[0] if plain else None
    if not isinstance(star, exp.Star) or any(star.args.values()):
        return None
    table = query.args["from_"].this
    if not isinstance(table, exp.Table) or any(
        value for key, value in table.args.items() if key not in ("this", "db", "catalog")
    ):
        return None
    return table
