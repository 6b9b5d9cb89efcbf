"""The state signatures of the vertices of a plan.

A vertex can use the state of another vertex with the same name and an equal signature. Of unequal
signatures, `engine/named_jobs/state_evolution` decides.
"""

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
    """The state signatures of the vertices of a plan, by the name of the vertex."""
    lowering = Lowering(parallelism)
    lowering.lower(plan)
    return {
        vertex: _of_late_rows(vertex, lowering.late[vertex])
        if vertex in lowering.late
        else _signature(node)
        for vertex, node in lowering.nodes.items()
    }


def _of_late_rows(vertex: str, table: WritableTable) -> StateSignature:
    """The signature of a vertex for late rows, which has no state of its node."""
    if vertex.startswith(WRITE):
        return _written(table)
    return StateSignature(text="late rows", same={"": "late rows"})


def _signature(node: Physical) -> StateSignature:
    """The signature of a node. The state of a scan or a sink consists of positions in its table, so
    its signature has only the table."""
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
    """The text of a node, and of the window functions below it: the node refers to window bounds
    only as columns."""
    over = "".join(
        f" over {node_text(item)}"
        for item in _below(node)
        if isinstance(item, physical_streams.PhysicalAssignWindows)
    )
    return f"{node_text(node)} of {types_text(node.fields)}{over}"


StateForm = tuple[Form, StateWindows | None, dict[str, str]]
"""The form of state, its windows, and the properties that must not change (`same`), by name."""


def _state_of(node: Physical) -> StateForm:
    """The form of a node's state, by the rule of the node."""
    rule = STATE_FORMS.find(node)
    if rule is not None:
        return rule(node)
    text = f"{node_text(node, (LATE, *EMISSION))} of {types_text(node.fields)}"
    return Form.OTHER, None, {"": text}


def buffered_rows(node: Physical, *without: str) -> StateForm:
    """The form of state for an operator that buffers unchanged rows of its inputs. The selected
    columns and the properties `without` may change."""
    return Form.ROWS, None, {"": node_text(node, (LATE, *EMISSION, "columns", *without))}


def _retained_input(node: Physical) -> Physical:
    """The node whose rows or groups an operator retains: for a join with a table, the table."""
    return node.build if isinstance(node, physical.HashJoin) else node


def _endless(node: Physical) -> tuple[str, ...]:
    """The names of the unbounded tables that the rows of a node come from."""
    if isinstance(node, physical.SourceScan):
        return (node.table.name,) if node.table.is_unbounded else ()
    return tuple(dict.fromkeys(name for item in _inputs(node) for name in _endless(item)))


def sessions(gap: int, time: SqlType, every: int | None = None, lateness: int = 0) -> StateWindows:
    """The windows of state for session windows."""
    shape = WindowShape(WindowKind.SESSION, gap)
    return StateWindows(shape=shape, is_integer=time.is_integer, every=every, lateness=lateness)


def _reads(node: Physical) -> tuple[str, ...]:
    """The names of the tables that the rows of a node come from."""
    if isinstance(node, physical.SourceScan):
        return (node.table.name,)
    return tuple(name for item in _inputs(node) for name in _reads(item))


def _watermarks(node: Physical) -> dict[int, str]:
    """The watermarks that a node receives: their number at the node, and the name of the table."""
    found = {number: name for item in _inputs(node) for number, name in _watermarks(item).items()}
    if isinstance(node, physical.SourceScan) and node.time is not None:
        found[node.time.watermark] = node.table.name
    elif isinstance(node, physical_streams.PhysicalImposeOrder):
        found[node.time.watermark] = ", ".join(_reads(node))
    elif isinstance(node, physical.Shared):
        found = {now: found[number] for number, now in node.watermarks if number in found}
    return found


def _inputs(node: Physical) -> tuple[Physical, ...]:
    """The inputs of a node; of a `Shared`, the shared subplan, also if another use runs it."""
    return (node.shared,) if isinstance(node, physical.Shared) else node.inputs


def _below(node: Physical) -> Iterator[Physical]:
    for item in node.inputs:
        yield item
        yield from _below(item)
