"""Typed expressions as the SQL of another engine.

A `Dialect` describes an engine: its types, names and literals, and tables of rules. A table maps
the key of a function to a rule. A rule gets the call and its arguments as the engine's SQL, and
returns SQL of exactly the call's type, or raises Unrenderable. A function without a rule is
refused.

`Rendering` walks an expression. Runnel evaluates constants, which become literals of the text; the
dialect's tables render everything else. None of the user's text is passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from runnel.base.frozen import frozen
from runnel.deadline import check_time
from runnel.errors import ERROR_MARK, DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import can_fail, evaluate_constant, is_constant
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.kernels.values import scalar_of
from runnel.expressions.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    PythonCall,
    SortKey,
    conjuncts,
    walk,
)
from runnel.foreign.fragment import Unrenderable
from runnel.relation.over import WindowCall
from runnel.rendering.rules import ByEngine, FailingExpression, Invocation, Unknown, refused
from runnel.rendering.values import ValueRendering
from runnel.sqltypes import Kind, SqlType

MOST_CHARACTERS = 100_000
"""A longer text for one expression is refused: checks name their operands more than once, so
nesting multiplies."""


@frozen
class RenderingContext:
    """The values that are known only when a statement runs.

    arguments: the Python values of the statement's parameters.
    zone: the session's time zone.
    now: the statement's time in µs since 1970.
    """

    arguments: tuple[Any, ...] = ()
    zone: str = "UTC"
    now: int = 0


FunctionRule = Callable[["Rendering", Call, Sequence[str]], str]
CastRule = Callable[["Rendering", Cast, str], str]
AggregateRule = Callable[["Rendering", Invocation], str]


@frozen
class Dialect:
    """One engine's SQL."""

    values: ValueRendering
    """Its types, literals and identifiers."""
    error: str
    """The function that fails with a message."""
    functions: Mapping[str, FunctionRule]
    """The rule of each scalar function that the engine may run, by its key in `FUNCTIONS`."""
    casts: CastRule
    """The rule of all casts."""
    aggregates: Mapping[str, AggregateRule]
    """The rule of each aggregate that the engine may run, by the aggregate's name."""
    windows: Mapping[str, FunctionRule]
    """The functions that exist only with OVER; empty if no window of the engine is rendered."""
    ignores_nulls_inside: bool = False
    """Whether IGNORE NULLS is written within a call's brackets."""
    frame: Callable[[WindowCall], str] | None = None
    """The frame of a call with OVER, for an engine with rules of its own; refuses calls that have
    another result there."""
    python: Callable[[Rendering, PythonCall, Sequence[str]], str] | None = None
    """A call of a Python function, if the engine can run one."""


class Rendering:
    """Renders the expressions of one statement in one dialect.

    Without a session, a value that depends on it is rendered as `$…`, for EXPLAIN. An expression
    that renders without a session renders with one. The `columns` of the methods are the texts of
    the input's columns, by their index.
    """

    def __init__(self, dialect: Dialect, session: RenderingContext | None = None) -> None:
        self.dialect = dialect
        self.session = session

    def type(self, sql_type: SqlType) -> str:
        """The engine's type for values of a SQL type. Raises Unrenderable if there is none."""
        return self.dialect.values.type_name(sql_type)

    def literal(self, value: Any, sql_type: SqlType) -> str:
        """A value, as `Literal.value` has it, as an expression of the type."""
        return self.dialect.values.literal(value, sql_type)

    def text(self, value: str) -> str:
        """A literal of VARCHAR."""
        return self.dialect.values.text(value)

    def zone(self) -> str:
        """The session's zone as a literal; `$zone` until the statement runs."""
        return "$zone" if self.session is None else self.text(self.session.zone)

    def quote(self, name: str) -> str:
        """An identifier."""
        return self.dialect.values.quote(name)

    def error(self, message: str) -> str:
        """An expression that fails with a message of Runnel."""
        return f"{self.dialect.error}({self.text(ERROR_MARK + message)})"

    def check(self, is_wrong: str, message: str, value: str) -> str:
        """`value`, or an error where `is_wrong`. The message is the text of the DataError that
        Runnel's operators raise, since a test compares errors.
        """
        return f"CASE WHEN {is_wrong} THEN {self.error(message)} ELSE {value} END"

    def expression(self, expression: Expression, columns: Sequence[str]) -> str:
        """The value of an expression, of exactly `self.type(expression.type)`. The text can be an
        operand without brackets."""
        check_time()
        return self._text(self._folded(expression), columns)

    def condition(self, expression: Expression, columns: Sequence[str]) -> str:
        """A condition of WHERE, HAVING or ON: NULL may count as false. A conjunct that can fail
        sees only the rows that passed the conjuncts before it."""
        parts = conjuncts(self._folded(expression))
        text = ""
        for group in reversed(_steps(parts)):
            own = " AND ".join(self._text(part, columns) for part in group)
            text = f"CASE WHEN {own} THEN {text} ELSE FALSE END" if text else own
        return text if len(parts) == 1 else f"({text})"

    def key(self, expression: Expression, columns: Sequence[str]) -> str:
        """The value as a key of GROUP BY, DISTINCT, PARTITION BY or a join: values that are equal
        to Runnel are equal to the engine."""
        return self.dialect.values.key(self.expression(expression, columns), expression.type)

    def sort_key(self, key: SortKey, columns: Sequence[str]) -> str:
        """One item of ORDER BY."""
        if key.expression.type.is_nested:
            raise Unrenderable(f"an order of {key.expression.type}", key.expression.position)
        direction = "DESC" if key.descending else "ASC"
        nulls = "FIRST" if key.nulls_first else "LAST"
        return f"{self.expression(key.expression, columns)} {direction} NULLS {nulls}"

    def aggregate(self, call: AggregateCall, columns: Sequence[str]) -> str:
        """An aggregate over groups, of exactly `self.type(call.type)`."""
        rule = self.dialect.aggregates.get(call.function)
        if rule is None:
            raise Unrenderable(f"aggregate function {call.function.upper()}", call.position)
        return rule(self, self._invocation(call, columns, ""))

    def window_aggregate(self, call: AggregateCall, columns: Sequence[str], over_text: str) -> str:
        """An aggregate with the text of its OVER."""
        rule = self.dialect.aggregates.get(call.function)
        if rule is None or call.order:
            raise Unrenderable(f"window function {call.function.upper()}", call.position)
        return rule(self, self._invocation(call, columns, over_text))

    def _invocation(
        self, call: AggregateCall, columns: Sequence[str], over_text: str
    ) -> Invocation:
        for item in call.arguments:
            if call.distinct and item.type.is_nested:
                raise Unrenderable(f"{call.function.upper()}(DISTINCT {item.type})", call.position)
        arguments = [self.expression(item, columns) for item in call.arguments]
        filtered = ""
        if call.predicate is not None:
            condition = self.condition(call.predicate, columns)
            if arguments and any(map(can_fail, call.arguments)):
                # The engine may compute the argument for rows that FILTER removes.
                arguments[0] = f"CASE WHEN {condition} THEN {arguments[0]} END"
            filtered = f" FILTER (WHERE {condition})"
        # A constant orders nothing, and an engine may read a number as the index of an argument.
        keys = [
            item
            for item in call.order
            if not isinstance(self._folded(item.expression), (Literal, Unknown))
        ]
        order = ", ".join(self.sort_key(item, columns) for item in keys)

        def run(name: str, *texts: str, distinct: bool = call.distinct) -> str:
            return (
                f"{name}({'DISTINCT ' if distinct else ''}{', '.join(texts)}){filtered}{over_text}"
            )

        return Invocation(
            call, tuple(arguments), run, f" ORDER BY {order}" if order else "", bool(over_text)
        )

    @cached_property
    def _context(self) -> EvaluationContext:
        assert self.session is not None
        return EvaluationContext((), self.session.now, self.session.zone)

    def _folded(self, expression: Expression) -> Expression:
        """The expression with each constant subtree as a Literal, an Unknown or a
        FailingExpression."""
        if isinstance(expression, (Column, Literal)):
            return expression
        children = tuple(self._folded(child) for child in expression.children)
        constant = isinstance(expression, (Parameter, Cast, Case, InList)) or (
            isinstance(expression, Call) and not FUNCTIONS[expression.function].is_volatile
        )
        if constant and all(
            isinstance(child, (Literal, Unknown, FailingExpression)) for child in children
        ):
            return self._constant(expression)
        changed = any(
            new is not old for new, old in zip(children, expression.children, strict=True)
        )
        return expression.with_children(children) if changed else expression

    def _constant(self, expression: Expression) -> Expression:
        if self.session is None and not is_constant(expression):
            return Unknown(original=expression, type=expression.type, position=expression.position)
        try:
            value = evaluate_constant(
                expression, None if self.session is None else self._with_arguments(expression)
            )
        except DataError as error:
            return FailingExpression(
                message=error.message, type=expression.type, position=expression.position
            )
        return Literal(value=value, type=expression.type, position=expression.position)

    def _with_arguments(self, expression: Expression) -> EvaluationContext:
        """The session with the arguments that the expression uses, in the types that it expects."""
        context = self._context
        assert self.session is not None
        used = {node.index: node.type for node in walk(expression) if isinstance(node, Parameter)}
        if not used:
            return context
        scalars = [
            scalar_of(value, used[index], context.zone) if index in used else None
            for index, value in enumerate(self.session.arguments)
        ]
        return EvaluationContext(scalars, context.now, context.zone)

    def _text(self, expression: Expression, columns: Sequence[str]) -> str:
        renderer = _RENDERERS.get(type(expression))
        if renderer is None:
            raise Unrenderable(f"{type(expression).__name__}", expression.position)
        text = renderer(self, expression, columns)
        if len(text) > MOST_CHARACTERS:
            raise Unrenderable("an expression that becomes so large", expression.position)
        return text

    def _column(self, expression: Column, columns: Sequence[str]) -> str:
        self.type(expression.type)
        return columns[expression.index]

    def _literal(self, expression: Literal, columns: Sequence[str]) -> str:
        return self.literal(expression.value, expression.type)

    def _unknown(self, expression: Unknown, columns: Sequence[str]) -> str:
        original = expression.original
        if expression.type.is_nested:  # not every value of it has a literal
            raise Unrenderable(f"a parameter of type {expression.type}", expression.position)
        shown = f"${original.index + 1}" if isinstance(original, Parameter) else f"$({original})"
        return f"CAST({shown} AS {self.type(expression.type)})"

    def _failure(self, expression: FailingExpression, columns: Sequence[str]) -> str:
        return f"CAST({self.error(expression.message)} AS {self.type(expression.type)})"

    def _cast(self, expression: Cast, columns: Sequence[str]) -> str:
        return self.dialect.casts(self, expression, self._text(expression.operand, columns))

    def _call(self, expression: Call, columns: Sequence[str]) -> str:
        if expression.function in ("and", "or"):
            return self._connective(expression, columns)
        rule = self.dialect.functions.get(expression.function)
        if rule is None:
            raise refused(expression)
        return rule(self, expression, [self._text(item, columns) for item in expression.arguments])

    def _python(self, expression: PythonCall, columns: Sequence[str]) -> str:
        rule = self.dialect.python
        if rule is None:
            raise Unrenderable(f"function {expression.function.name}", expression.position)
        return rule(self, expression, [self._text(item, columns) for item in expression.arguments])

    def _connective(self, expression: Call, columns: Sequence[str]) -> str:
        """AND and OR. An operand that can fail sees only the rows that the operands before it leave
        undecided.

        The text contains each operand at most twice. a OR b OR c, where b and c can fail, becomes
        CASE WHEN (a) IS TRUE THEN TRUE WHEN (b) IS TRUE THEN TRUE ELSE (a OR b OR c) END.
        """
        word, deciding = ("AND", "FALSE") if expression.function == "and" else ("OR", "TRUE")
        groups: list[list[str]] = []
        for part in expression.arguments:
            if not groups or _can_fail(part):
                groups.append([])
            groups[-1].append(self._text(part, columns))
        joined = f"({f' {word} '.join(text for group in groups for text in group)})"
        whens = [
            f"WHEN ({f' {word} '.join(group)}) IS {deciding} THEN {deciding}"
            for group in groups[:-1]
        ]
        return f"CASE {' '.join(whens)} ELSE {joined} END" if whens else joined

    def _case(self, expression: Case, columns: Sequence[str]) -> str:
        whens = [
            f"WHEN {self._text(condition, columns)} THEN {self._text(result, columns)}"
            for condition, result in zip(expression.conditions, expression.results, strict=True)
        ]
        last = (
            Literal(value=None, type=expression.type)
            if expression.otherwise is None
            else expression.otherwise
        )
        return f"CASE {' '.join(whens)} ELSE {self._text(last, columns)} END"

    def _in_list(self, expression: InList, columns: Sequence[str]) -> str:
        if expression.operand.type.is_nested:
            raise Unrenderable(f"IN over {expression.operand.type}", expression.position)
        values = ", ".join(self._text(value, columns) for value in expression.values)
        return f"({self._text(expression.operand, columns)} IN ({values}))"


def _can_fail(expression: Expression) -> bool:
    return any(
        isinstance(node, (Unknown, FailingExpression)) for node in walk(expression)
    ) or can_fail(expression)


def _steps(parts: Sequence[Expression]) -> list[list[Expression]]:
    """Conjuncts in groups: each group but the first begins with one that can fail."""
    groups: list[list[Expression]] = []
    for part in parts:
        if groups and not _can_fail(part):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


_RENDERERS: dict[type[Expression], Callable[[Rendering, Any, Sequence[str]], str]] = {
    Column: Rendering._column,
    Literal: Rendering._literal,
    Unknown: Rendering._unknown,
    FailingExpression: Rendering._failure,
    Cast: Rendering._cast,
    Call: Rendering._call,
    Case: Rendering._case,
    InList: Rendering._in_list,
    PythonCall: Rendering._python,
}


_SAMPLES: dict[Kind, Any] = {
    Kind.BOOLEAN: True,
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT), 1),
    **dict.fromkeys((Kind.REAL, Kind.DOUBLE), 1.0),
    Kind.VARCHAR: "a",
}
"""Values that options of functions accept; for the other types NULL is sufficient."""


class SampleRendering(Rendering):
    """A text that an engine can bind before the statement runs, to find out whether it accepts it:
    a constant that depends on arguments, time or zone is rendered as a sample value of its type."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect, RenderingContext())

    def _constant(self, expression: Expression) -> Expression:
        if is_constant(expression):
            return super()._constant(expression)
        return Literal(
            value=_SAMPLES.get(expression.type.kind),
            type=expression.type,
            position=expression.position,
        )


def template(text: str, *kinds: Kind) -> FunctionRule:
    """A rule that formats `text` with the arguments; with `kinds`, only if the first argument has
    one of these types."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if kinds and call.arguments[0].type.kind not in kinds:
            raise refused(call)
        return text.format(*arguments)

    return rule


def by_engine(
    *, duckdb: FunctionRule | str | None = None, spark: FunctionRule | str | None = None
) -> ByEngine[FunctionRule]:
    """A row of a table of functions; a text is a template."""
    rules = (template(item) if isinstance(item, str) else item for item in (duckdb, spark))
    return ByEngine(*rules)


def typed(text: str) -> FunctionRule:
    """A rule that converts the template to the type of the call."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return f"CAST({text.format(*arguments)} AS {rendering.type(call.type)})"

    return rule


def called(name: str) -> FunctionRule:
    """A rule that calls the engine's function with all arguments."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return f"{name}({', '.join(arguments)})"

    return rule


def aggregate(name: str) -> AggregateRule:
    """A rule that calls the engine's aggregate and converts it to the type of the call."""

    def rule(rendering: Rendering, item: Invocation) -> str:
        if item.call.order:
            raise Unrenderable(f"{item.call.function.upper()} with ORDER BY", item.call.position)
        made = item.run(name, *(item.arguments or ("*",)))
        return f"CAST({made} AS {rendering.type(item.call.type)})"

    return rule
