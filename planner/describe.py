"""What a node of a plan says of itself in EXPLAIN: one title, and its properties by name.

One function per node. A property is a short name and a text; the order is that of reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from runnel import relation as logical
from runnel.catalog import Table
from runnel.connector import IndexLookup
from runnel.expressions.nodes import Column, Expression, SortKey
from runnel.frozen import frozen
from runnel.planner import physical, physical_streams
from runnel.planner.physical import Physical
from runnel.relation import Field, JoinKind, Relation
from runnel.sqltypes import SqlType
from runnel.streams import WINDOW_COLUMNS, AsOfJoin, AssignWindows, ImposeOrder, WindowKind
from runnel.subqueries import GroupLimit, Series, UnnestTogether
from runnel.windows import Window

if TYPE_CHECKING:
    from runnel.processors.event_time import TimeRule
    from runnel.stream_joins import TimeLink

Properties = dict[str, str]


@frozen
class Node:
    """A node of a plan as people read it. `rows` is the estimate, None where it isn't known or not asked for."""

    title: str
    properties: Properties
    rows: int | None
    inputs: tuple[Node, ...]


def describe(plan: Relation | Physical) -> Node:
    """The tree of a logical or physical plan."""
    rule = _RULES.get(type(plan))
    title, properties = (type(plan).__name__, {}) if rule is None else rule(plan)
    known = {name: text for name, text in properties.items() if text}
    rows = plan.rows if isinstance(plan, Physical) else None
    return Node(title, known, rows, tuple(describe(item) for item in plan.inputs))


_Description = tuple[str, Properties]


def listed(items: Iterable[object]) -> str:
    return ", ".join(plain(item) for item in items)


def plain(item: object) -> str:
    """The text of an expression without the brackets around the whole."""
    text = str(item)
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def _optional(item: Expression | None) -> str:
    return "" if item is None else plain(item)


def named(expressions: Sequence[Expression], names: Sequence[str]) -> str:
    """Expressions with the names they are given, where these differ from their own."""
    texts = []
    for expression, name in zip(expressions, names, strict=True):
        keeps = isinstance(expression, Column) and expression.name == name
        texts.append(name if keeps else f"{plain(expression)} AS {name}")
    return ", ".join(texts)


def _field_names(fields: Iterable[Field]) -> tuple[str, ...]:
    return tuple(item.name for item in fields)


def _pairs(left: Sequence[Expression], right: Sequence[Expression], null_safe: tuple[int, ...]) -> str:
    pairs = zip(left, right, strict=True)
    return ", ".join(f"{a} {'IS NOT DISTINCT FROM' if i in null_safe else '='} {b}" for i, (a, b) in enumerate(pairs))


def _sort_keys(keys: Sequence[SortKey]) -> str:
    return listed(keys)


def _join_title(kind: JoinKind, how: str = "") -> str:
    return f"{kind.value.capitalize()} join{how}"


def _scan(node: logical.Scan) -> _Description:
    return f"Scan {node.table.name}", {
        "columns": ", ".join(_field_names(node.fields)) or "none",
        "where": _optional(node.predicate),
        "limit": "" if node.limit is None else str(node.limit),
    }


def _rows_text(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _values(node: logical.Values) -> _Description:
    return f"Values, {_rows_text(len(node.rows))}", {"columns": ", ".join(_field_names(node.fields))}


def _generate(node: logical.Generate | physical.Generate) -> _Description:
    return node.function.capitalize(), {"arguments": listed(node.arguments)}


def _filter(node: logical.Filter) -> _Description:
    return "Filter", {"where": plain(node.condition)}


def _project(node: logical.Project) -> _Description:
    return "Project", {"columns": named(node.expressions, node.names)}


def _aggregate(node: logical.Aggregate | physical.HashAggregate) -> _Description:
    title = "Aggregate" if node.aggregates else "Distinct"
    properties = {"by": listed(node.keys), "compute": listed(node.aggregates)}
    if isinstance(node, physical.HashAggregate) and node.aggregates and not node.two_stage:
        properties["stages"] = "one"
    return title, properties


def _timed_aggregate(node: physical_streams.TimedAggregate) -> _Description:
    title, properties = _aggregate(node)
    first = node.bounds[0][0]
    properties["until"] = listed(node.keys[number] for number, _ in node.bounds)
    if node.every is not None:
        properties["early results every"] = str(timedelta(microseconds=node.every))
    if node.lateness:
        properties["allowed lateness"] = time_span(node.lateness, node.keys[first].type)
    return title, properties | _late(node.late)


def _session_aggregate(node: physical_streams.SessionAggregate) -> _Description:
    by = ", ".join(WINDOW_COLUMNS[place] if place < 0 else str(node.keys[place]) for place in node.columns)
    properties = {"by": by, "compute": listed(node.aggregates), "time": str(node.time)}
    properties["gap"] = time_span(node.gap, node.time.type)
    properties["of"] = listed(node.keys[i] for i in node.partition)
    if node.every is not None:
        properties["early results every"] = str(timedelta(microseconds=node.every))
    if node.lateness:
        properties["allowed lateness"] = time_span(node.lateness, node.time.type)
    return "Aggregate by sessions", properties | _late(node.late)


def _late(late: physical_streams.LateRows | None) -> Properties:
    return {} if late is None else {"late rows": late.table.name}


def _join(node: logical.Join) -> _Description:
    return _join_title(node.kind), {
        "on": _pairs(node.left_keys, node.right_keys, node.null_safe),
        "where": _optional(node.condition),
    }


def _hash_join(node: physical.HashJoin) -> _Description:
    how = " by hash" if node.probe_keys else "" if node.condition is None else " by nested loop"
    return _join_title(node.kind, how), {
        "on": _pairs(node.probe_keys, node.build_keys, node.null_safe),
        "where": _optional(node.condition),
        "build": "second input" + (", divided by key" if node.is_partitioned else refreshed_every(node)),
        "columns": "" if node.columns is None else ", ".join(_field_names(node.fields)) or "none",
    }


def refreshed_every(node: physical.HashJoin) -> str:
    """How often a join reads its table again, as people read it, after a comma; empty where it reads it once."""
    if node.refresh is None:
        return ""
    time = f"{node.refresh} ms" if node.refresh % 1000 else f"{node.refresh // 1000} s"
    return f", refreshed every {time}"


def _stream_join(node: physical_streams.IntervalJoin | physical_streams.TimedJoin) -> _Description:
    link = node.times.link
    how = " of streams" if isinstance(node, physical_streams.IntervalJoin) else " of streams, when complete"
    return _join_title(node.kind, how), {
        "on": _pairs(node.left_keys, node.right_keys, node.null_safe),
        "times": "" if link is None else time_link(link, node.left.fields, node.right.fields),
        "where": _optional(node.condition),
        "columns": "" if node.columns is None else ", ".join(_field_names(node.fields)) or "none",
    } | _late_sides(node.late)


def _late_sides(late: tuple[physical_streams.LateRows | None, physical_streams.LateRows | None]) -> Properties:
    return _late(late[0] or late[1])


def _lookup_join(node: physical_streams.LookupJoin) -> _Description:
    table = node.lookup.table
    names = [table.columns[place].name for place in table.key_columns]
    return _join_title(node.kind, f" by look-up in {table.name}"), {
        "key": ", ".join(f"{name} = {key}" for name, key in zip(names, node.keys, strict=True)),
        "where": " AND ".join(str(item) for item in (node.lookup.predicate, node.condition) if item is not None),
        "values": "as they are when the row comes",
        "columns": "" if node.columns is None else ", ".join(_field_names(node.fields)) or "none",
    }


def _as_of_join(node: AsOfJoin | physical_streams.AsOfJoin) -> _Description:
    shape = node if isinstance(node, AsOfJoin) else node.shape
    sign = ("<" if shape.forward else ">") + ("" if shape.strict else "=")
    columns = "" if isinstance(node, AsOfJoin) or node.columns is None else ", ".join(_field_names(node.fields)) or "none"
    return "Left as-of join" if shape.outer else "As-of join", {
        "on": _pairs(node.left_keys, node.right_keys, ()),
        "time": f"{node.left_time} {sign} {node.right_time}",
        "columns": columns,
    } | ({} if isinstance(node, AsOfJoin) else _late_sides(node.late))


def time_link(link: TimeLink, left: Sequence[Field], right: Sequence[Field]) -> str:
    """How far apart the times of both sides may be."""
    first, second = left[link.left], right[link.right]
    low = "" if link.low is None else f"{_moved(link.low, first.type)} <= "
    high = "" if link.high is None else f" <= {_moved(link.high, first.type)}"
    return f"{low}{second.name} - {first.name}{high}"


def _moved(units: int, time: SqlType) -> str:
    return f"-{time_span(-units, time)}" if units < 0 else time_span(units, time)


def _sort(node: logical.Sort | physical.Sort) -> _Description:
    return "Sort", {"by": _sort_keys(node.keys)}


def _timed_sort(node: physical_streams.TimedSort) -> _Description:
    title, properties = _sort(node)
    return title, {**properties, "complete": "by the watermark"} | _late(node.late)


def _limit(node: logical.Limit | physical.Limit) -> _Description:
    return "Limit", {"count": _optional(node.count), "offset": _optional(node.offset)}


def _shared(node: physical.Shared) -> _Description:
    return f"Shared {node.number}" + ("" if node.is_first else ", as before"), {}


def _hold(node: physical.Hold) -> _Description:
    return "Hold", {}


def _union(node: logical.Union | physical.Union) -> _Description:
    return "Union all", {}


def _set_operation(node: logical.SetOperation | physical.SetOperation) -> _Description:
    return node.operation.capitalize() + (" all" if node.all else ""), {}


def _impose_order(node: ImposeOrder) -> _Description:
    column = node.fields[node.time]
    return "Impose order", {"watermark": f"{column.name} - {time_span(node.lag, column.type)}"}


def _assign_windows(node: AssignWindows | physical_streams.AssignWindows) -> _Description:
    shape, time = node.shape, node.time.type
    spans = {"step": shape.step, "offset": shape.offset}
    properties = {"time": str(node.time), "gap" if shape.kind is WindowKind.SESSION else "size": time_span(shape.size, time)}
    properties |= {name: time_span(value, time) for name, value in spans.items() if value}
    if isinstance(node, AssignWindows):
        properties["of"] = listed(node.partition)
    elif node.columns is not None:
        properties["columns"] = ", ".join(_field_names(node.fields)) or "none"
    return f"{shape.kind.value.capitalize()} windows", properties


def _framed_aggregate(node: physical_streams.FramedAggregate) -> _Description:
    shape, time = node.shape, node.time.type
    by = ", ".join(WINDOW_COLUMNS[place] if place < 0 else str(node.keys[place]) for place in node.columns)
    properties = {"by": by, "compute": listed(node.aggregates), "time": str(node.time), "size": time_span(shape.size, time)}
    properties |= {"step": time_span(shape.step, time)}
    if shape.offset:
        properties["offset"] = time_span(shape.offset, time)
    properties["complete"] = "by the watermark" if node.bound is not None else "at the end"
    properties |= _late(node.late)
    return f"Aggregate in frames of {shape.kind.value.capitalize()} windows", properties


def _session_rows(node: physical_streams.SessionRows) -> _Description:
    properties = {"time": str(node.time), "gap": time_span(node.gap, node.time.type), "of": listed(node.keys)}
    return "Session windows", properties | {"complete": "by the watermark" if node.bound is not None else "at the end"}


def _physical_impose_order(node: physical_streams.ImposeOrder) -> _Description:
    return "Impose order", {"watermark": _watermark(node.time)}


def _watermark(rule: TimeRule | None) -> str:
    return "" if rule is None else f"{plain(rule.time)} - {time_span(rule.lag, rule.time.type)}"


def time_span(units: int, time: SqlType) -> str:
    """A distance in event time as people read it: of an integer column a number, else hours, minutes and seconds."""
    return str(units) if time.is_integer else str(timedelta(microseconds=units))


def _unnest(node: logical.Unnest | physical.Unnest) -> _Description:
    arrays = (node.array, *node.more) if isinstance(node, physical.Unnest) else (node.array,)
    return "Unnest", {"array": listed(arrays), "outer": "yes" if node.outer else ""}


def _unnest_together(node: UnnestTogether) -> _Description:
    return "Unnest", {"arrays": listed(node.arrays), "outer": "yes" if node.outer else ""}


def _expand(node: logical.Expand | physical.Expand) -> _Description:
    """Of each list only what isn't the same in all of them."""
    differing = [i for i, items in enumerate(zip(*node.projections, strict=True)) if len(set(items)) > 1]
    lists = "; ".join(", ".join(str(items[i]) for i in differing) for items in node.projections)
    columns = ", ".join(node.fields[i].name for i in differing)
    return f"Expand, {len(node.projections)} times", {"columns": columns, "lists": lists}


def _window(node: Window | physical.Window) -> _Description:
    names = _field_names(node.fields)[-len(node.calls) :]
    properties = {"compute": ", ".join(f"{call} AS {name}" for call, name in zip(node.calls, names, strict=True))}
    if isinstance(node, physical.Window) and node.most is not None:
        properties["keep"] = f"{names[node.most.call]} <= {node.most.number}"
    return "Window", properties


def _timed_window(node: physical_streams.TimedWindow) -> _Description:
    title, properties = _window(node)
    lead = max((reach.lead for reach in node.reaches), default=0)
    order = {"in order of" if node.reaches else "until": listed(item for item, _ in node.held)}
    behind = {"behind": time_span(lead, node.held[0][0].type)} if lead else {}
    return title, properties | order | behind | _late(node.late)


def _series(node: Series | physical.Series) -> _Description:
    return "Generate_series per row", {"arguments": listed(node.arguments), "outer": "yes" if node.outer else ""}


def _recursion(node: logical.Recursion | physical.Recursion) -> _Description:
    return "Recursion", {"rows": "each once" if node.distinct else ""}


def _working_table(node: logical.WorkingTable | physical.WorkingTable) -> _Description:
    return f"Rows of the round before of {node.name}", {}


def _group_limit(node: GroupLimit | physical.GroupLimit) -> _Description:
    return "Limit per group", {
        "of": listed(node.keys),
        "by": _sort_keys(node.order),
        "count": _optional(node.count),
        "offset": _optional(node.offset),
    }


def _source_scan(node: physical.SourceScan) -> _Description:
    columns = node.table.columns
    read = tuple(columns[i].name for i in node.request.columns)
    fields = _field_names(node.fields)
    output = "" if node.projections is None else named(node.projections, fields)
    return f"Scan {node.table.name}", {
        "read": ", ".join(read) or "none",
        "where": _optional(node.condition),
        "columns": "" if node.projections is None else output or "none",
        "watermark": _watermark(node.time),
        "limit": "" if node.request.limit is None else str(node.request.limit),
    }


def _index_scan(node: physical.IndexScan) -> _Description:
    title, properties = _source_scan(node)
    return title, {"index": _lookup(node.table, node.lookup)} | properties


def _lookup(table: Table, lookup: IndexLookup) -> str:
    column = lookup.index.columns[0]
    conditions = []
    if lookup.points is not None:
        one = len(lookup.points) == 1
        conditions.append(f"{column} = {lookup.points[0]}" if one else f"{column} IN ({listed(lookup.points)})")
    if lookup.lower is not None:
        conditions.append(f"{column} {'>=' if lookup.lower_inclusive else '>'} {lookup.lower}")
    if lookup.upper is not None:
        conditions.append(f"{column} {'<=' if lookup.upper_inclusive else '<'} {lookup.upper}")
    text = f"{lookup.index.name} ({lookup.index.kind})"
    if conditions:
        text += " where " + " AND ".join(conditions)
    if lookup.ordered:
        text += ", in order" + (" from the last" if lookup.descending else "")
    return text


def _fragment(node: physical.Fragment) -> _Description:
    return f"Fragment on {node.source.engine}", {
        "chosen for": node.source.reason,
        "stopped by": node.stopped,
        "sql": node.source.text,
    }


def _physical_values(node: physical.Values) -> _Description:
    return "Values", {"columns": ", ".join(_field_names(node.fields))}


def _calc(node: physical.Calc) -> _Description:
    columns = "" if node.projections is None else named(node.projections, _field_names(node.fields)) or "none"
    return "Calc", {"where": _optional(node.condition), "columns": columns}


def _top(node: physical.TopN) -> _Description:
    return "Top", {"count": plain(node.count), "offset": _optional(node.offset), "by": _sort_keys(node.keys)}


def _write(node: physical.Write) -> _Description:
    columns = ", ".join(node.table.columns[i].name for i in node.request.columns)
    return f"Write {node.table.name}", {"mode": node.request.mode.value, "columns": columns}


_RULES: dict[type[Any], Callable[[Any], _Description]] = {
    logical.Scan: _scan,
    logical.Values: _values,
    logical.Generate: _generate,
    logical.Filter: _filter,
    logical.Project: _project,
    logical.Aggregate: _aggregate,
    logical.Join: _join,
    logical.Sort: _sort,
    logical.Limit: _limit,
    ImposeOrder: _impose_order,
    physical_streams.ImposeOrder: _physical_impose_order,
    physical.Shared: _shared,
    physical.Hold: _hold,
    AssignWindows: _assign_windows,
    physical_streams.AssignWindows: _assign_windows,
    physical_streams.SessionRows: _session_rows,
    logical.Union: _union,
    logical.SetOperation: _set_operation,
    logical.Unnest: _unnest,
    logical.Recursion: _recursion,
    physical.Recursion: _recursion,
    logical.WorkingTable: _working_table,
    physical.WorkingTable: _working_table,
    Series: _series,
    UnnestTogether: _unnest_together,
    GroupLimit: _group_limit,
    physical.SourceScan: _source_scan,
    physical.IndexScan: _index_scan,
    physical.Fragment: _fragment,
    physical.Values: _physical_values,
    physical.Generate: _generate,
    physical.Calc: _calc,
    physical.HashAggregate: _aggregate,
    physical_streams.TimedAggregate: _timed_aggregate,
    physical_streams.FramedAggregate: _framed_aggregate,
    physical_streams.SessionAggregate: _session_aggregate,
    physical.HashJoin: _hash_join,
    physical_streams.IntervalJoin: _stream_join,
    physical_streams.TimedJoin: _stream_join,
    AsOfJoin: _as_of_join,
    physical_streams.AsOfJoin: _as_of_join,
    physical_streams.LookupJoin: _lookup_join,
    physical.Sort: _sort,
    physical_streams.TimedSort: _timed_sort,
    physical.TopN: _top,
    physical.Limit: _limit,
    physical.Union: _union,
    physical.SetOperation: _set_operation,
    physical.Unnest: _unnest,
    logical.Expand: _expand,
    physical.Expand: _expand,
    Window: _window,
    physical.Window: _window,
    physical_streams.TimedWindow: _timed_window,
    physical.Series: _series,
    physical.GroupLimit: _group_limit,
    physical.Write: _write,
}
