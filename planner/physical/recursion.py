"""The step of a recursion as a chain of stages from the working table to its result.

The step is planned like any query. The operators between its root and the working table are the
stages. If a stage is a join, its other side is computed once, before the first round.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from runnel.errors import NotSupportedError, Position
from runnel.planner.estimates import estimate
from runnel.planner.operators.passes import STAGES
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical, column_names
from runnel.processors.recursion import StageDefinition
from runnel.relation.nodes import Relation
from runnel.relation.subqueries import Recursion
from runnel.sqltypes import to_arrow


def choose_recursion(node: Recursion, choose: Callable[[Relation], Physical]) -> Physical:
    """The physical plan of a recursion. `choose` plans a relation within it."""
    stages: list[Physical] = []
    sides: list[Physical] = []
    below = step = choose(node.step)
    while not _is_working_table(below, node.name):
        if isinstance(below, physical.HashJoin) and not _reads(below.build, node.name):
            sides.append(below.build)
            stages.append(below)
            below = below.probe
        elif STAGES.find(below) is not None and isinstance(below, physical.SingleInput):
            stages.append(below)
            below = below.input
        else:
            raise _unsupported(node.name, node.position)
    return physical.PhysicalRecursion(
        fields=node.fields,
        rows=estimate(node),
        anchor=choose(node.anchor),
        sides=tuple(reversed(sides)),
        stages=tuple(reversed(stages)),
        distinct=node.distinct,
        step=step,
    )


def _is_working_table(node: Physical, name: str) -> bool:
    return isinstance(node, physical.PhysicalWorkingTable) and node.name == name


def _reads(node: Physical, name: str) -> bool:
    return _is_working_table(node, name) or any(_reads(item, name) for item in node.inputs)


def _unsupported(name: str, position: Position | None) -> NotSupportedError:
    return NotSupportedError(
        f'the recursive term of "{name}" is not supported in this form',
        detail=(
            "its plan reads the rows of the previous round more than once, or on the build side of "
            "a join"
        ),
        hint=f'join "{name}" with tables in FROM, and write conditions on it in WHERE',
        position=position,
    )


def stage_definitions(node: physical.PhysicalRecursion) -> list[StageDefinition]:
    """The processors of the stages."""
    definitions = []
    side = 0
    for stage in node.stages:
        definition = STAGES.rule(stage)(stage)
        if isinstance(stage, physical.HashJoin):
            definition = StageDefinition(definition.factory, 1, side)
            side += 1
        definitions.append(definition)
    return definitions


def schema_of(node: physical.PhysicalRecursion) -> pa.Schema:
    names = column_names(node.fields)
    return pa.schema(
        [pa.field(name, to_arrow(item.type)) for name, item in zip(names, node.fields, strict=True)]
    )
