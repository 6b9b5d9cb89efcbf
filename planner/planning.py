"""The functions of the planner that plans of single statements need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.catalog import Dependency
from runnel.planner.bind.write import BoundWrite
from runnel.planner.parse.syntax import Statement
from runnel.planner.physical.nodes import Physical
from runnel.planner.plans import Plan, QueryPlan, WritePlan
from runnel.relation.nodes import Relation

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.sqltypes import SqlType


@frozen
class Planning:
    """The functions of the planner that these plans need.

    write: plans a write.
    rows: plans a query whose rows a statement changes or returns.
    parameters: the types of the parameters of a relation.
    dependencies: the catalog objects that the statement has used.
    lowering: the DAG for a parallelism of the physical plan that a function returns.
    plan: plans another statement without parameters.
    """

    write: Callable[[BoundWrite], WritePlan]
    rows: Callable[[Relation], QueryPlan]
    parameters: Callable[[Relation], tuple[SqlType, ...]]
    dependencies: Callable[[], tuple[Dependency, ...]]
    lowering: Callable[[Callable[[], Physical]], Callable[[int], DAG]]
    plan: Callable[[Statement], Plan]
