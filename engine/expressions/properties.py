"""Properties of an expression that are known without evaluating it."""

from __future__ import annotations

from runnel.expressions.casts.cast import cast_can_fail, depends_on_session
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.nodes import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    LambdaCall,
    LambdaVariable,
    Literal,
    Parameter,
    PythonCall,
    walk,
)


def can_fail(expression: Expression) -> bool:
    """Whether the expression raises on some rows.

    An expression that can't fail may also be evaluated over rows whose result is discarded. The
    answer is kept with the expression: a condition is asked again at each join that it passes.
    """
    found: bool | None = expression.__dict__.get("_can_fail")
    if found is None:
        found = expression.__dict__["_can_fail"] = any(map(_fails, walk(expression)))
    return found


def _fails(node: Expression) -> bool:
    if isinstance(node, Call):
        return FUNCTIONS[node.function].can_fail(node)
    if isinstance(node, Cast):
        return cast_can_fail(node.operand.type, node.type)
    if isinstance(node, LambdaCall):
        return node.function == "list_reduce" and node.initial is None  # an empty ARRAY
    return not isinstance(node, (Column, Literal, Parameter, Case, InList, LambdaVariable))


def is_volatile(expression: Expression) -> bool:
    """Whether the value may differ from one evaluation to the next (RAND)."""
    found: bool | None = expression.__dict__.get("_is_volatile")
    if found is None:
        found = expression.__dict__["_is_volatile"] = any(map(_is_volatile, walk(expression)))
    return found


def _is_volatile(node: Expression) -> bool:
    if isinstance(node, Call):
        return FUNCTIONS[node.function].is_volatile
    return isinstance(node, PythonCall) and not node.function.is_deterministic


def is_slow(expression: Expression) -> bool:
    """Whether a row may need 1 µs or more, so that a batch of the usual size would block a
    cooperative thread.
    """
    return any(
        isinstance(node, LambdaCall)
        or (isinstance(node, Call) and FUNCTIONS[node.function].is_slow)
        for node in walk(expression)
    )


def depends_on_statement(node: Expression) -> bool:
    """Whether the value of a node depends on the time, the zone or the arguments of its
    statement."""
    if isinstance(node, Call):
        return FUNCTIONS[node.function].depends_on_session(node)
    if isinstance(node, Cast):
        return depends_on_session(node.operand.type, node.type)
    return isinstance(node, Parameter)


def is_constant(expression: Expression) -> bool:
    """Whether the value follows from the SQL text alone.

    False if the expression has columns, parameters, subqueries or volatile functions, or depends on
    the statement's time or zone.
    """
    for node in walk(expression):
        if isinstance(node, Call):
            function = FUNCTIONS[node.function]
            if function.is_volatile or function.depends_on_session(node):
                return False
        elif isinstance(node, Cast):
            if depends_on_session(node.operand.type, node.type):
                return False
        elif not isinstance(node, (Literal, Case, InList)):
            return False
    return True
