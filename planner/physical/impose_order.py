"""The choice of operators for IMPOSE_ORDER."""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Column, Expression
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.processors.sources.partition_watermarks import TimeRule
from runnel.relation.nodes import references
from runnel.relation.streams import ImposeOrder


def choose_impose_order(node: ImposeOrder, below: Physical) -> Physical:
    """Watermarks per partition of the source if `below` is a scan, else an operator that makes
    them; `below` itself if the rows end."""
    if not node.input.is_unbounded:
        return below
    if type(below) is physical.SourceScan and below.time is None:
        return replace(below, time=_rule(node, _expressions(below)[node.time], below.condition))
    rule = _rule(node, references(below.fields)[node.time], None)
    return physical_streams.PhysicalImposeOrder(
        fields=node.fields, rows=below.rows, input=below, time=rule
    )


def _rule(node: ImposeOrder, time: Expression, condition: Expression | None) -> TimeRule:
    return TimeRule(time, condition, node.lag, node.watermark, node.idle_timeout)


def _expressions(scan: physical.SourceScan) -> tuple[Expression, ...]:
    """The columns that a scan returns, over the columns that it reads."""
    if scan.projections is not None:
        return scan.projections
    columns = [scan.table.columns[i] for i in scan.request.columns]
    return tuple(Column(index=i, name=item.name, type=item.type) for i, item in enumerate(columns))
