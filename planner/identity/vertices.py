"""What each vertex of a plan is for: two of one name and one meaning may have each other's state,
and some others too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runnel.connector import WritableTable
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.planner.identity.nodes import EMISSION, LATE, keeps, node_text, types_text
from runnel.planner.identity.state_columns import state_columns
from runnel.planner.lower.dag_builder import WRITE, Lowering
from runnel.planner.operators.passes import STATE_FORMS
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical, column_names
from runnel.relation.state_identity import Form, StateSignature, StateWindows
from runnel.relation.streams import WindowKind, WindowShape
from runnel.sqltypes import SqlType


def state_signatures(plan: Physical, parallelism: int) -> dict[str, StateSignature]:
    """The meanings of the vertices of a plan, by name."""
    lowering = Lowering(parallelism)
    lowering.lower(plan)
    return {
        vertex: _of_late_rows(vertex, lowering.late[vertex])
        if vertex in lowering.late
        else _signature(node)
        for vertex, node in lowering.nodes.items()
    }


def _of_late_rows(vertex: str, table: WritableTable) -> StateSignature:
    """The vertices for late rows of a node have no state of that node."""
    if vertex.startswith(WRITE):
        return _written(table)
    return StateSignature(text="late rows", same={"": "late rows"})


def _signature(node: Physical) -> StateSignature:
    """Of a scan only its table counts, and of a sink: their state are places in these."""
    if isinstance(node, physical.SourceScan):
        text = f"read {node.table.name} of connector {node.table.connector}"
        return StateSignature(
            text=text,
            keeps=True,
            same={"": text},
            reads=(node.table.name,),
            watermarks=_watermarks(node),
        )
    if isinstance(node, physical.Write):
        return _written(node.table, _watermarks(node))
    form, windows, same = _state_of(node)
    holds_rows = form in (Form.ROWS, Form.SESSION_ROWS)
    return StateSignature(
        text=_whole_text(node),
        name=node.state_name or "",
        form=form,
        keeps=keeps(node),
        same=same,
        reads=() if isinstance(node, physical_streams.LateFilter) else _reads(node),
        watermarks=_watermarks(node),
        windows=windows,
        columns=state_columns(node) if holds_rows else (),
        column_names=tuple(column_names(item.fields) for item in node.inputs) if holds_rows else (),
        holds=_endless(_retained_input(node)) if keeps(node) else (),
    )


def _written(table: WritableTable, watermarks: Mapping[int, str] | None = None) -> StateSignature:
    text = f"write {table.name} of connector {table.connector}"
    return StateSignature(text=text, keeps=True, same={"": text}, watermarks=watermarks or {})


def _whole_text(node: Physical) -> str:
    """The text of a node, and of the windows below, whose bounds are plain columns to it."""
    over = "".join(
        f" over {node_text(item)}"
        for item in _below(node)
        if isinstance(item, physical_streams.PhysicalAssignWindows)
    )
    return f"{node_text(node)} of {types_text(node.fields)}{over}"


StateForm = tuple[Form, StateWindows | None, dict[str, str]]


def _state_of(node: Physical) -> StateForm:
    """The form of a node's state, its windows, and what may not change, part by part."""
    rule = STATE_FORMS.find(node)
    if rule is not None:
        return rule(node)
    text = f"{node_text(node, (LATE, *EMISSION))} of {types_text(node.fields)}"
    return Form.OTHER, None, {"": text}


def buffered_rows(node: Physical, *without: str) -> StateForm:
    """For an operator that buffers rows of its inputs as they are. The columns that it returns may
    change, and so may the properties `without`."""
    return Form.ROWS, None, {"": node_text(node, (LATE, *EMISSION, "columns", *without))}


def _retained_input(node: Physical) -> Physical:
    """What an operator keeps rows of, or groups of: of a join with a table only that."""
    return node.build if isinstance(node, physical.HashJoin) else node


def _endless(node: Physical) -> tuple[str, ...]:
    """The tables without end that a node's rows are from."""
    if isinstance(node, physical.SourceScan):
        return (node.table.name,) if node.table.is_unbounded else ()
    return tuple(dict.fromkeys(name for item in _inputs(node) for name in _endless(item)))


def sessions(gap: int, time: SqlType, every: int | None = None, lateness: int = 0) -> StateWindows:
    shape = WindowShape(WindowKind.SESSION, gap)
    return StateWindows(shape=shape, is_integer=time.is_integer, every=every, lateness=lateness)


def _reads(node: Physical) -> tuple[str, ...]:
    """The tables that a node's rows are from."""
    if isinstance(node, physical.SourceScan):
        return (node.table.name,)
    return tuple(name for item in _inputs(node) for name in _reads(item))


def _watermarks(node: Physical) -> dict[int, str]:
    """The watermarks that come to a node, by their numbers there, and the tables whose they are."""
    found = {number: name for item in _inputs(node) for number, name in _watermarks(item).items()}
    if isinstance(node, physical.SourceScan) and node.time is not None:
        found[node.time.watermark] = node.table.name
    elif isinstance(node, physical_streams.PhysicalImposeOrder):
        found[node.time.watermark] = ", ".join(_reads(node))
    elif isinstance(node, physical.Shared):
        found = {now: found[number] for number, now in node.watermarks if number in found}
    return found


def _inputs(node: Physical) -> tuple[Physical, ...]:
    """Also of what runs elsewhere in the plan."""
    return (node.shared,) if isinstance(node, physical.Shared) else node.inputs


def _below(node: Physical) -> Iterator[Physical]:
    for item in node.inputs:
        yield item
        yield from _below(item)
