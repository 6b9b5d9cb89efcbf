"""Binding of the functions with a lambda function: LIST_TRANSFORM, LIST_FILTER and LIST_REDUCE.
Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.coercion import convert
from runnel.expressions.nested.lists import as_array, element_of
from runnel.expressions.nodes import Expression, LambdaCall, LambdaVariable
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.planner.parse.query.shapes import LAMBDA_FUNCTIONS
from runnel.sqltypes import (
    BIGINT,
    MAX_PRECISION,
    Kind,
    SqlType,
    array,
    common_type,
    decimal,
    loses_digits,
)

if TYPE_CHECKING:
    from runnel.planner.bind.grouping.aggregate import AggregateBinder
    from runnel.planner.bind.scope import Scope

_ROUNDS = 6
"""How often the body of LIST_REDUCE is bound until its type is the type of its result so far."""


class LambdaBinder:
    """Binds one call.

    within: returns a binder over a scope, for a clause with a name.
    scope: the scope of the call.
    tree: the call.
    """

    def __init__(
        self,
        within: Callable[[Scope, str], AggregateBinder],
        scope: Scope,
        tree: Any,
        sql: str,
    ) -> None:
        self._within = within
        self._scope = scope
        self._sql = sql
        self._position = position_of(tree, sql)
        call = function_call(tree)
        assert call is not None
        self._name, self._arguments = call
        self._function = LAMBDA_FUNCTIONS[self._name]
        self._clause = f"the lambda function of {self._name}"

    def bound(self) -> Expression:
        most = 3 if self._function == "list_reduce" else 2
        if not 2 <= len(self._arguments) <= most:
            expected = "2" if most == 2 else "2 or 3"
            raise ProgrammingError(
                f"{self._name} expects {expected} arguments, not {len(self._arguments)}",
                position=self._position,
            )
        function = self._arguments[1]
        binder = self._within(self._scope, self._clause)
        if not isinstance(function, exp.Lambda):
            values = [binder.bind(item) for item in self._arguments]
            return build.call(self._function, values, self._position)
        operand = as_array(
            binder.bind(self._arguments[0]), self._name, 1, self._at(self._arguments[0])
        )
        names = [item.name for item in function.expressions]
        for index, name in enumerate(names):
            if name.lower() in [other.lower() for other in names[:index]]:
                raise ProgrammingError(
                    f'{self._clause} has two parameters "{name}"', position=self._at(function)
                )
        if self._function == "list_reduce":
            return self._reduce(operand, function.this, names)
        variables = self._variables(names, [element_of(operand), BIGINT])
        body = self._inside(variables)
        if self._function == "list_filter":
            condition = body.condition(function.this)
            return self._call(operand, variables, condition, operand.type)
        value = body.bind(function.this)
        return self._call(operand, variables, value, array(value.type))

    def _reduce(self, operand: Expression, tree: Any, names: list[str]) -> Expression:
        element = element_of(operand)
        initial = None
        kind = element
        if len(self._arguments) == 3:
            initial = self._within(self._scope, self._clause).bind(self._arguments[2])
            kind = common_type(initial.type, element) or initial.type
        for _ in range(_ROUNDS):
            variables = self._variables(names, [kind, element, BIGINT])
            body = self._inside(variables).bind(tree)
            wider = common_type(kind, body.type)
            if wider is None or (kind.is_exact and loses_digits(kind, body.type)):
                break
            if wider == kind:
                return self._reduced(operand, variables, convert(body, kind), initial)
            if wider.kind is Kind.DECIMAL:
                wider = decimal(MAX_PRECISION, wider.scale)
            kind = wider
        raise ProgrammingError(
            f"{self._clause} returns {body.type}, which is not the type of the result so far "
            f"({kind})",
            hint=f"write a CAST: ({', '.join(names)}) -> CAST(… AS {kind})",
            position=self._at(tree),
        )

    def _reduced(
        self,
        operand: Expression,
        variables: tuple[LambdaVariable, ...],
        body: Expression,
        initial: Expression | None,
    ) -> Expression:
        kind = body.type
        if initial is None:
            # The first element is the first result.
            operand = convert(operand, array(kind))
            changed = replace(variables[1], type=kind)
            if variables[1].type != kind:
                body = self._inside((variables[0], changed, *variables[2:])).bind(
                    self._arguments[1].this
                )
                body = convert(body, kind)
            variables = (variables[0], changed, *variables[2:])
        else:
            initial = convert(initial, kind)
        return self._call(operand, variables, body, kind, initial)

    def _variables(
        self, names: Sequence[str], types: Sequence[SqlType]
    ) -> tuple[LambdaVariable, ...]:
        depth = max((item.depth + 1 for item in self._scope.variables), default=0)
        return tuple(
            LambdaVariable(name=name, depth=depth, index=index, type=kind)
            for index, (name, kind) in enumerate(zip(names, types, strict=False))
        )

    def _inside(self, variables: tuple[LambdaVariable, ...]) -> AggregateBinder:
        scope = replace(self._scope, variables=(*self._scope.variables, *variables))
        return self._within(scope, self._clause)

    def _call(
        self,
        operand: Expression,
        variables: tuple[LambdaVariable, ...],
        body: Expression,
        kind: SqlType,
        initial: Expression | None = None,
    ) -> Expression:
        return build.limited(
            LambdaCall(
                function=self._function,
                operand=operand,
                variables=variables,
                body=body,
                initial=initial,
                type=kind,
                position=self._position,
            )
        )

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._sql)
