"""The rules of every operator that computes its rows from one input row each.

Its processors run one each for the processors of the input, in any number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.nodes import Physical, SingleInput

if TYPE_CHECKING:
    from runnel.dag import ProcessorFactory
    from runnel.planner.lower.dag_builder import Lowering, VertexOutput
    from runnel.processors.recursion import StageDefinition


def row_by_row(
    node_class: type[SingleInput], vertex: str, processor: Callable[[Any], ProcessorFactory]
) -> None:
    """Registers the rules of a class.

    vertex: the name of its vertices. Snapshots find state by it: it never changes.
    processor: `processor(node)`, the supplier of its processors.
    """

    def lower(to: Lowering, node: SingleInput) -> VertexOutput:
        from runnel.planner.physical.nodes import column_names

        rows = to.lower(node.input)
        names = column_names(node.fields)
        return to.follow(rows, vertex, processor(node), to.parallelism_of(rows), names)

    def stage(node: SingleInput) -> StageDefinition:
        from runnel.processors.recursion import StageDefinition

        return StageDefinition(processor(node))

    passes.LOWERING.add(lower, node_class)
    passes.STAGES.add(stage, node_class)
    passes.LATE_ROWS.add(late_rows_of_input, node_class)
    passes.STREAM_SHARING.add_classes(node_class)
    passes.TABLE_SHARING.add_classes(node_class)
    by_default(
        node_class,
        passes.STATE_TEXTS,
        passes.STATE_FORMS,
        passes.WORTH_SHARING,
        passes.READS_ALL,
    )


def late_rows_of_input(node: SingleInput) -> Physical:
    """For late rows: the node passes the late rows of its input on."""
    from runnel.planner.physical.late_rows import of_input

    return of_input(node)
