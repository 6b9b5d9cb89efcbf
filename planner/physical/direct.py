"""Plans whose operators may run one after another within one call, without a job.

A job's tasklets, queues and handle cost as much as the work of a query over some hundreds of rows.
They are needed by work that takes long, grows, or waits. A chain of simple operators over a table
in memory does none of this while the table is small.
"""

from __future__ import annotations

from collections.abc import Iterator

from runnel.expressions.kernels.result_size import SIZES
from runnel.expressions.nodes import Call, Expression, LambdaCall, PythonCall, walk
from runnel.expressions.properties import is_slow, is_volatile
from runnel.planner.physical.nodes import (
    Calc,
    HashAggregate,
    Physical,
    PhysicalSort,
    SingleInput,
    SourceScan,
    TopN,
)

_CHAIN = (Calc, HashAggregate, PhysicalSort, TopN)


def runs_directly(plan: object) -> bool:
    """Whether the plan is a chain of operators over one table in memory, each of which is quick and
    returns about as many bytes as it reads."""
    node = plan
    while isinstance(node, SingleInput) and type(node) in _CHAIN:
        if not all(map(_is_quick, _expressions(node))):
            return False
        node = node.input
    if type(node) is not SourceScan:
        return False
    return (
        node.time is None
        and node.malformed is None
        and not node.table.is_unbounded
        and all(map(_is_quick, _expressions(node)))
        and node.table.scan(node.request).is_stored
    )


def _expressions(node: Physical) -> Iterator[Expression]:
    if isinstance(node, SourceScan | Calc):
        if node.condition is not None:
            yield node.condition
        yield from node.projections or ()
    elif isinstance(node, HashAggregate):
        yield from node.keys
        for call in node.aggregates:
            if call.python is not None:
                yield PythonCall(function=call.python, arguments=call.arguments, type=call.type)
            yield from call.expressions
    elif isinstance(node, PhysicalSort | TopN):
        yield from (key.expression for key in node.keys)


def _is_quick(expression: Expression) -> bool:
    """Whether the expression takes well under 1 µs a row, and its value is not much larger than its
    arguments. A user function may take any time, and the value of a volatile one may depend on the
    clock of a job."""
    return not (is_slow(expression) or is_volatile(expression)) and not any(
        isinstance(node, PythonCall | LambdaCall)
        or (isinstance(node, Call) and node.function in SIZES)
        for node in walk(expression)
    )
