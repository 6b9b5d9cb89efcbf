"""Typed expressions: what the binder produces for SQL scalars, and what operators evaluate over
batches.

Nodes are frozen values. `position`, an offset in the SQL text, is ignored by equality. Every node
has a type, and every argument already has the type that its function requires: conversions are
explicit `Cast` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from runnel.base.frozen import frozen
from runnel.errors import Position
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.expressions.python.function import PythonFunction

Change = Callable[["Expression"], "Expression"]
"""Returns the expression to use in place of another."""


@frozen(kw_only=True)
class Expression:
    """The base of all expressions.

    type: the type of the value.
    position: the line and column in the SQL text, for errors; None if there is none. Ignored by
      equality.
    """

    type: SqlType
    position: Position | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """The same node over other children (as many, of the same types)."""
        assert not children
        return self


STORED = "expr$"
"""The beginning of a stored name, in lower case."""


class UnnamedColumn(str):
    """The name of a column for which the query has no name: the text of its expression, as it was
    typed.

    State and its identity have `EXPR$` and the number instead, as in the first version, so that the
    state of a job does not depend on the spelling of an expression.

    number: its index in the select list.
    """

    __slots__ = ("number",)
    number: int

    def __new__(cls, text: str, number: int) -> UnnamedColumn:
        found = super().__new__(cls, text)
        found.number = number
        return found

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.number


def stored_name(name: str) -> str:
    """The name of a column in stored state. Stored queries may refer to the column by it."""
    return f"{STORED.upper()}{name.number}" if isinstance(name, UnnamedColumn) else name


def shown_name(name: str) -> str:
    """The name in a text with expressions, in quotes if it looks like one of them."""
    if not isinstance(name, UnnamedColumn) or name.isidentifier():
        return name
    return '"' + name.replace('"', '""') + '"'


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, with a number after the name of an unnamed column if another column has it: `1, 1`
    becomes `1, 1_1`. Other names are unchanged."""
    names = tuple(names)
    used = {name.lower() for name in names if not isinstance(name, UnnamedColumn)}
    found: list[str] = []
    for name in names:
        spelling, number = name, 0
        if isinstance(name, UnnamedColumn):
            while spelling.lower() in used:
                number += 1
                spelling = UnnamedColumn(f"{name}_{number}", name.number)
            used.add(spelling.lower())
        found.append(spelling)
    return tuple(found)


@frozen(kw_only=True)
class Column(Expression):
    """A column of the input.

    index: the column's index in the input.
    name: the name to show; it doesn't identify the column.
    """

    index: int
    name: str

    def __str__(self) -> str:
        return shown_name(self.name)


@frozen(kw_only=True)
class Literal(Expression):
    """A constant.

    value: the Python value that a fetch of that type returns: None, bool, int, float, Decimal, str,
      bytes, date, time, datetime (aware for TIMESTAMP WITH TIME ZONE), timedelta, int (months) for
      a year-month interval, UUID, list, dict.
    """

    value: Any

    def __hash__(self) -> int:
        # Values of nested types are lists and dicts, which have no hash.
        return hash(
            (self.type, self.value if self.value.__hash__ is not None else repr(self.value))
        )

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        if self.type.is_temporal:
            return f"{self.type.kind.name.split('_')[0]} '{self.value}'"
        if self.type.kind is Kind.UUID:
            return f"UUID '{self.value}'"
        if isinstance(self.value, bool):
            return str(self.value).upper()
        return str(self.value)


@frozen(kw_only=True)
class Parameter(Expression):
    """A parameter of the statement.

    index: the parameter's index, from 0. The job carries the argument, already converted to `type`.
    is_fixed: whether its type is the argument's in every context, as contexts require several.
    """

    index: int
    is_fixed: bool = False

    def __str__(self) -> str:
        return f"?{self.index}"


@frozen(kw_only=True)
class Call(Expression):
    """A function or operator applied to arguments.

    function: a key of `functions.FUNCTIONS`.
    arguments: the operands; their number and types are those that the function accepts.
    """

    function: str
    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=children)

    def __str__(self) -> str:
        infix = INFIX.get(self.function)
        if infix is not None and len(self.arguments) >= 2:
            return "(" + f" {infix} ".join(map(str, self.arguments)) + ")"
        if self.function in POSTFIX:
            return f"({self.arguments[0]} {POSTFIX[self.function]})"
        if self.function == "not":
            return f"(NOT {self.arguments[0]})"
        return f"{self.function.upper()}({', '.join(map(str, self.arguments))})"


INFIX = {
    "add": "+",
    "subtract": "-",
    "calendar_sum": "+",
    "calendar_difference": "-",
    "multiply": "*",
    "divide": "/",
    "remainder": "%",
    "concat": "||",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
    "is_distinct": "IS DISTINCT FROM",
    "is_not_distinct": "IS NOT DISTINCT FROM",
    "like": "LIKE",
}
"""The operators that are written between their arguments, by function key."""
POSTFIX = {
    "is_null": "IS NULL",
    "is_not_null": "IS NOT NULL",
    "is_true": "IS TRUE",
    "is_not_true": "IS NOT TRUE",
    "is_false": "IS FALSE",
    "is_not_false": "IS NOT FALSE",
}
"""The operators that are written after their argument, by function key."""


@frozen(kw_only=True)
class Cast(Expression):
    """CAST(operand AS type).

    operand: the value to convert; `type` is the target type.
    implicit: whether the user didn't write the cast. Implicit and explicit casts fail alike.
    """

    operand: Expression
    implicit: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=children[0])

    def __str__(self) -> str:
        return f"CAST({self.operand} AS {self.type})"


@frozen(kw_only=True)
class Case(Expression):
    """CASE WHEN conditions[i] THEN results[i] … ELSE otherwise END. COALESCE is bound to this node
    too.

    A result is evaluated only for the rows that select it, so a branch that isn't selected raises
    no error.

    conditions: BOOLEAN expressions; the first one that is TRUE selects the result.
    results: one per condition, all of the type of the node.
    otherwise: the result where no condition is TRUE; None: NULL.
    """

    conditions: tuple[Expression, ...]
    results: tuple[Expression, ...]
    otherwise: Expression | None

    @property
    def children(self) -> tuple[Expression, ...]:
        last = () if self.otherwise is None else (self.otherwise,)
        return (*self.conditions, *self.results, *last)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        count = len(self.conditions)
        last = children[2 * count] if self.otherwise is not None else None
        return replace(
            self, conditions=children[:count], results=children[count : 2 * count], otherwise=last
        )

    def __str__(self) -> str:
        whens = " ".join(
            f"WHEN {c} THEN {r}" for c, r in zip(self.conditions, self.results, strict=True)
        )
        last = "" if self.otherwise is None else f" ELSE {self.otherwise}"
        return f"CASE {whens}{last} END"


@frozen(kw_only=True)
class InList(Expression):
    """`operand IN (values)`: BOOLEAN by three-valued logic.

    operand: the value that is looked up.
    values: literals and parameters of the operand's type. An IN list with any other expression is
        bound to a chain of `=` and OR.
    """

    operand: Expression
    values: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand, *self.values)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=children[0], values=children[1:])

    def __str__(self) -> str:
        return f"({self.operand} IN ({', '.join(map(str, self.values))}))"


@frozen(kw_only=True)
class PythonCall(Expression):
    """A call of a user function.

    function: the user function.
    arguments: one per parameter of the function, of the parameter's type.
    """

    function: PythonFunction
    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> PythonCall:
        return replace(self, arguments=children)

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.arguments))})"


@frozen(kw_only=True)
class LambdaVariable(Expression):
    """A parameter of a lambda function, in the function's body.

    name: the name to show.
    depth: the number of lambda functions around this one.
    index: the parameter's index in the function's list.
    """

    name: str
    depth: int
    index: int

    def __str__(self) -> str:
        return self.name


@frozen(kw_only=True)
class LambdaCall(Expression):
    """A call of a function that applies a lambda function to the elements of an ARRAY.

    function: "list_transform", "list_filter" or "list_reduce".
    operand: the ARRAY.
    variables: the parameters of the lambda function: [the result so far,] the element [, its
        position from 1].
    body: the value of the lambda function. It reads columns of the row.
    initial: of LIST_REDUCE: the result before the first element; None: the first element.
    """

    function: str
    operand: Expression
    variables: tuple[LambdaVariable, ...]
    body: Expression
    initial: Expression | None = None

    @property
    def children(self) -> tuple[Expression, ...]:
        last = () if self.initial is None else (self.initial,)
        return (self.operand, self.body, *last)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        initial = None if self.initial is None else children[2]
        return replace(self, operand=children[0], body=children[1], initial=initial)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.variables))
        names = names if len(self.variables) == 1 else f"({names})"
        last = "" if self.initial is None else f", {self.initial}"
        return f"{self.function.upper()}({self.operand}, {names} -> {self.body}{last})"


class SortKey(NamedTuple):
    """One ORDER BY item.

    expression: the value to sort by.
    descending: whether the order is descending.
    nulls_first: whether NULLs come first. By default NULL is the smallest value.
    """

    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def mapped(self, change: Change) -> SortKey:
        """The item with `change` applied to its expression."""
        return self._replace(expression=change(self.expression))

    def __str__(self) -> str:
        usual = self.nulls_first is not self.descending
        nulls = "" if usual else (" NULLS FIRST" if self.nulls_first else " NULLS LAST")
        return f"{self.expression}{' DESC' if self.descending else ''}{nulls}"


WINDOW_FINAL = "window_final"
"""The `function` of an `AggregateCall` that marks final results rather than aggregating: whether
the result covers all rows of the group, and isn't an early one.
"""


@frozen(kw_only=True)
class AggregateCall:
    """One aggregate call of an aggregation. Not an Expression: it has no value for a single row.

    function: a key of `aggregates.AGGREGATES`, or the name of a user function, which is then
      `python`. COUNT(*) is "count_star", without arguments.
    arguments: the values to aggregate.
    type: the type of the result.
    distinct: whether repeated argument tuples are dropped.
    order: the order in which rows are aggregated: ORDER BY in the brackets, or WITHIN GROUP.
    predicate: the condition of the FILTER clause.
    position: the line and column in the SQL text, for errors. Ignored by equality.
    python: the user function, if it is one.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: SqlType
    distinct: bool = False
    order: tuple[SortKey, ...] = ()
    predicate: Expression | None = None
    position: Position | None = field(default=None, compare=False, repr=False)
    python: PythonFunction | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions of the call, in the order in which `map_expressions` visits them."""
        last = () if self.predicate is None else (self.predicate,)
        return (*self.arguments, *(item.expression for item in self.order), *last)

    def map_expressions(self, change: Change) -> AggregateCall:
        """The call with `change` applied to each of its expressions as a whole."""
        return replace(
            self,
            arguments=tuple(change(item) for item in self.arguments),
            order=tuple(item.mapped(change) for item in self.order),
            predicate=None if self.predicate is None else change(self.predicate),
        )

    def __str__(self) -> str:
        inner = "*" if self.function == "count_star" else ", ".join(map(str, self.arguments))
        name = "COUNT" if self.function == "count_star" else self.function.upper()
        order = f" ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        text = f"{name}({'DISTINCT ' if self.distinct else ''}{inner}{order})"
        return text if self.predicate is None else f"{text} FILTER (WHERE {self.predicate})"


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its subexpressions, outermost first."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.children
        if children:
            waiting.extend(reversed(children))


def transform(expression: Expression, change: Change) -> Expression:
    """A copy with `change` applied to every node, innermost first; unchanged nodes are shared with
    the original expression.
    """
    children = expression.children
    if not children:
        return change(expression)
    # Most children of a long list are leaves. They are handled here, without a recursive call.
    changed = tuple(
        [transform(child, change) if child.children else change(child) for child in children]
    )
    if not all(map(is_, changed, children)):
        expression = expression.with_children(changed)
    return change(expression)


def columns_of(expression: Expression) -> frozenset[int]:
    """The indexes of the input columns that an expression reads.

    They are computed once, since a condition is asked for them at each join that it passes.
    """
    found: frozenset[int] | None = expression.__dict__.get("_columns")
    if found is None:
        found = frozenset(node.index for node in walk(expression) if isinstance(node, Column))
        expression.__dict__["_columns"] = found
    return found


def conjuncts(expression: Expression | None) -> list[Expression]:
    """The conditions that AND combines, in order; none if there is no expression."""
    if expression is None:
        return []
    if isinstance(expression, Call) and expression.function == "and":
        return [item for argument in expression.arguments for item in conjuncts(argument)]
    return [expression]


def mapped(expressions: tuple[Expression, ...], change: Change) -> tuple[Expression, ...]:
    """`change` applied to each expression as a whole."""
    return tuple(change(item) for item in expressions)


def elements(expression: Expression) -> tuple[Expression, ...] | None:
    """The elements of a list that is written out; None for any other expression."""
    if isinstance(expression, Call) and expression.function == "array":
        return expression.arguments
    return None
