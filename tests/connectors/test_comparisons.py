"""Comparisons of columns with constants, before and after the arguments of the run are known."""

from __future__ import annotations

import pyarrow as pa

from runnel.connectors.comparisons import comparisons, constant_comparison
from runnel.expressions import build
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Call, Column, InList, Literal, Parameter
from runnel.sqltypes import BIGINT, BOOLEAN

X = Column(index=0, name="x", type=BIGINT)
ONE = Literal(value=1, type=BIGINT)
NULL = Literal(value=None, type=BIGINT)
FIRST = Parameter(index=0, type=BIGINT)
SECOND = Parameter(index=1, type=BIGINT)


def test_a_constant_is_a_literal_or_a_parameter() -> None:
    assert constant_comparison(build.call("lt", [X, ONE])) == (X, "lt", (ONE,))
    assert constant_comparison(build.call("lt", [FIRST, X])) == (X, "gt", (FIRST,))
    in_list = InList(operand=X, values=(ONE, FIRST), type=BOOLEAN)
    assert constant_comparison(in_list) == (X, "eq", (ONE, FIRST))


def test_other_conditions_are_no_comparisons() -> None:
    for condition in (
        build.call("lt", [X, X]),
        build.call("lt", [ONE, FIRST]),
        build.call("ne", [X, ONE]),
        build.call("eq", [build.call("add", [X, ONE]), ONE]),
        InList(operand=X, values=(ONE, X), type=BOOLEAN),
        InList(operand=ONE, values=(ONE, FIRST), type=BOOLEAN),
        X,
    ):
        assert constant_comparison(condition) is None


def test_arguments_are_constants_once_they_are_known() -> None:
    context = EvaluationContext((pa.scalar(7, pa.int64()),))
    conjuncts = (
        build.call("ge", [X, FIRST]),
        build.call("le", [X, SECOND]),
        InList(operand=X, values=(NULL, FIRST), type=BOOLEAN),
        InList(operand=X, values=(ONE, SECOND), type=BOOLEAN),
    )
    predicate = Call(function="and", arguments=conjuncts, type=BOOLEAN)
    found = comparisons(predicate, context)
    assert [(item.operation, item.values) for item in found] == [("ge", (7,)), ("eq", (None, 7))]
