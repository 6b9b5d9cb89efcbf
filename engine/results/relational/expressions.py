"""Expressions of relations as Python objects, as in DuckDB's package: each is the text of an
expression in SQL, which operators and methods compose."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from runnel.errors import InterfaceError, as_written


class RelationExpression:
    """An expression: `relation.filter(runnel.ColumnExpression('a') > 1)`.

    text: the expression in SQL.
    name: its name as a column; "": the query chooses it.
    order: DESC and NULLS LAST, as a key of an order.
    """

    __slots__ = ("name", "order", "text")
    __module__ = "runnel"
    __hash__ = object.__hash__

    def __init__(self, text: str, name: str = "", order: str = "") -> None:
        self.text, self.name, self.order = text, name, order

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: combine conditions by &, | and ~")

    def alias(self, name: str) -> RelationExpression:
        """The expression with a name, as AS."""
        return RelationExpression(self.text, name, self.order)

    def get_name(self) -> str:
        """The name of the column, or the text."""
        return self.name or self.text.strip('"')

    # Operators

    def __add__(self, other: Any) -> RelationExpression:
        return _infix(self, "+", other)

    def __radd__(self, other: Any) -> RelationExpression:
        return _infix(other, "+", self)

    def __sub__(self, other: Any) -> RelationExpression:
        return _infix(self, "-", other)

    def __rsub__(self, other: Any) -> RelationExpression:
        return _infix(other, "-", self)

    def __mul__(self, other: Any) -> RelationExpression:
        return _infix(self, "*", other)

    def __rmul__(self, other: Any) -> RelationExpression:
        return _infix(other, "*", self)

    def __truediv__(self, other: Any) -> RelationExpression:
        return _infix(self, "/", other)

    def __rtruediv__(self, other: Any) -> RelationExpression:
        return _infix(other, "/", self)

    def __floordiv__(self, other: Any) -> RelationExpression:
        return _infix(self, "//", other)

    def __rfloordiv__(self, other: Any) -> RelationExpression:
        return _infix(other, "//", self)

    def __mod__(self, other: Any) -> RelationExpression:
        return _infix(self, "%", other)

    def __rmod__(self, other: Any) -> RelationExpression:
        return _infix(other, "%", self)

    def __pow__(self, other: Any) -> RelationExpression:
        return FunctionExpression("pow", self, other)

    def __rpow__(self, other: Any) -> RelationExpression:
        return FunctionExpression("pow", other, self)

    def __neg__(self) -> RelationExpression:
        return RelationExpression(f"(- {self})")

    def __invert__(self) -> RelationExpression:
        return RelationExpression(f"(NOT {self})")

    def __and__(self, other: Any) -> RelationExpression:
        return _infix(self, "AND", other)

    def __rand__(self, other: Any) -> RelationExpression:
        return _infix(other, "AND", self)

    def __or__(self, other: Any) -> RelationExpression:
        return _infix(self, "OR", other)

    def __ror__(self, other: Any) -> RelationExpression:
        return _infix(other, "OR", self)

    def __eq__(self, other: object) -> RelationExpression:  # type: ignore[override]
        return _infix(self, "=", other)

    def __ne__(self, other: object) -> RelationExpression:  # type: ignore[override]
        return _infix(self, "<>", other)

    def __lt__(self, other: Any) -> RelationExpression:
        return _infix(self, "<", other)

    def __le__(self, other: Any) -> RelationExpression:
        return _infix(self, "<=", other)

    def __gt__(self, other: Any) -> RelationExpression:
        return _infix(self, ">", other)

    def __ge__(self, other: Any) -> RelationExpression:
        return _infix(self, ">=", other)

    # Conditions and conversions

    def isin(self, *values: Any) -> RelationExpression:
        """IN of values or expressions."""
        return RelationExpression(f"({self} IN ({_listed(values)}))")

    def isnotin(self, *values: Any) -> RelationExpression:
        """NOT IN of values or expressions."""
        return RelationExpression(f"({self} NOT IN ({_listed(values)}))")

    def isnull(self) -> RelationExpression:
        """IS NULL."""
        return RelationExpression(f"({self} IS NULL)")

    def isnotnull(self) -> RelationExpression:
        """IS NOT NULL."""
        return RelationExpression(f"({self} IS NOT NULL)")

    is_null, is_not_null = isnull, isnotnull

    def between(self, lower: Any, upper: Any) -> RelationExpression:
        """BETWEEN two values."""
        return RelationExpression(f"({self} BETWEEN {sql_of(lower)} AND {sql_of(upper)})")

    def like(self, pattern: Any) -> RelationExpression:
        """LIKE a pattern."""
        return _infix(self, "LIKE", pattern)

    def ilike(self, pattern: Any) -> RelationExpression:
        """ILIKE a pattern."""
        return _infix(self, "ILIKE", pattern)

    def cast(self, type: Any) -> RelationExpression:  # noqa: A002 - DuckDB's name
        """CAST to a type."""
        return RelationExpression(f"CAST({self} AS {type})")

    def try_cast(self, type: Any) -> RelationExpression:  # noqa: A002 - DuckDB's name
        """TRY_CAST to a type."""
        return RelationExpression(f"TRY_CAST({self} AS {type})")

    # Keys of an order

    def asc(self) -> RelationExpression:
        """As a key in ascending order."""
        return RelationExpression(self.text, self.name, " ASC")

    def desc(self) -> RelationExpression:
        """As a key in descending order."""
        return RelationExpression(self.text, self.name, " DESC")

    def nulls_first(self) -> RelationExpression:
        """As a key with NULLs before other values."""
        return RelationExpression(self.text, self.name, f"{self.order} NULLS FIRST")

    def nulls_last(self) -> RelationExpression:
        """As a key with NULLs after other values."""
        return RelationExpression(self.text, self.name, f"{self.order} NULLS LAST")

    # Aggregates: `col('a').sum()`

    def __getattr__(self, name: str) -> Any:
        if name not in _FUNCTIONS:
            raise AttributeError(
                f"an expression has no attribute {name!r}; write "
                f"FunctionExpression({name!r}, …), or SQLExpression('…')",
                name=name,
                obj=self,
            )

        def call(*arguments: Any) -> RelationExpression:
            return FunctionExpression(_FUNCTIONS[name], self, *arguments)

        return call


_FUNCTIONS = {
    **{
        name: name
        for name in (
            *("any_value", "arg_max", "arg_min", "avg", "bit_and", "bit_or", "bool_and", "bool_or"),
            *("count", "first", "last", "list", "max", "median", "min", "mode", "product", "sum"),
            *("array_agg", "concat", "kurtosis", "quantile_cont", "string_agg", "entropy"),
        )
    },
    "mean": "avg",
    "std": "stddev",
    "var": "variance",
    "skewness": "skewness",
}
"""The function in SQL of each method that calls one."""


class CaseWhen(RelationExpression):
    """CASE, of which `when` adds a condition and `otherwise` the last value."""

    __slots__ = ()
    __module__ = "runnel"

    def when(self, condition: Any, value: Any) -> CaseWhen:
        """CASE with another condition and its value."""
        body = self.text.removesuffix(" END)")
        return CaseWhen(f"{body} WHEN {sql_of(condition)} THEN {sql_of(value)} END)")

    def otherwise(self, value: Any) -> RelationExpression:
        """CASE with the value if no condition is true."""
        return RelationExpression(f"{self.text.removesuffix(' END)')} ELSE {sql_of(value)} END)")


def sql_of(value: Any) -> str:
    """An expression, or a Python value as a literal, in SQL."""
    if isinstance(value, RelationExpression):
        return value.text
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float | Decimal):
        return _number(value)
    if isinstance(value, list | tuple):
        return f"[{_listed(value)}]"
    if isinstance(value, dict):
        items = ", ".join(f"{_text(str(key))}: {sql_of(item)}" for key, item in value.items())
        return f"{{{items}}}"
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, datetime):
        return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value}'"
    kinds = {str: "", date: "DATE ", time: "TIME ", UUID: "UUID "}
    kind = next((item for item in kinds if isinstance(value, item)), None)
    if kind is None:
        raise InterfaceError(
            f"a value of class {type(value).__name__} is no constant of an expression",
            hint="pass it as a parameter of con.sql(query, params=[…])",
        )
    return kinds[kind] + _text(str(value))


def _number(value: bool | int | float | Decimal) -> str:
    text = str(value).lower()
    is_plain = isinstance(value, bool) or text.lstrip("-")[:1].isdigit()
    if isinstance(value, float):
        text = text if "e" in text else f"{text}e0" if is_plain else f"CAST('{text}' AS DOUBLE)"
    return f"({text})" if text.startswith("-") else text


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(sql_of, values))


def _infix(left: Any, operator: str, right: Any) -> RelationExpression:
    return RelationExpression(f"({sql_of(left)} {operator} {sql_of(right)})")


def ColumnExpression(*names: str) -> RelationExpression:  # noqa: N802
    """A column, which may be qualified: `ColumnExpression('t', 'a')`."""
    return RelationExpression("*" if names == ("*",) else ".".join(map(as_written, names)))


def ConstantExpression(value: Any) -> RelationExpression:  # noqa: N802
    """A Python value as a literal."""
    return RelationExpression(sql_of(value))


def FunctionExpression(function_name: str, *arguments: Any) -> RelationExpression:  # noqa: N802
    """The call of a function."""
    return RelationExpression(f"{function_name}({_listed(arguments)})")


def CaseExpression(condition: Any, value: Any) -> CaseWhen:  # noqa: N802
    """CASE WHEN condition THEN value END, with the methods `when` and `otherwise`."""
    return CaseWhen(f"(CASE WHEN {sql_of(condition)} THEN {sql_of(value)} END)")


def StarExpression(  # noqa: N802
    *, exclude: Iterable[str | RelationExpression] | None = None
) -> RelationExpression:
    """All columns, without the ones in `exclude`."""
    names = [
        str(item) if isinstance(item, RelationExpression) else as_written(item)
        for item in exclude or ()
    ]
    return RelationExpression(f"* EXCLUDE ({', '.join(names)})" if names else "*")


def SQLExpression(expression: str) -> RelationExpression:  # noqa: N802
    """An expression as a text in SQL."""
    return RelationExpression(expression)


def LambdaExpression(lhs: Any, rhs: Any) -> RelationExpression:  # noqa: N802
    """A lambda with one parameter, or with a tuple of them."""
    names = lhs if isinstance(lhs, tuple) else (lhs,)
    shown = [
        item.text if isinstance(item, RelationExpression) else as_written(item) for item in names
    ]
    head = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
    return RelationExpression(f"{head} -> {sql_of(rhs)}")


def CoalesceOperator(*values: Any) -> RelationExpression:  # noqa: N802
    """The first value that is not NULL."""
    return FunctionExpression("COALESCE", *values)


col, lit, star = ColumnExpression, ConstantExpression, StarExpression
sql_expr, coalesce = SQLExpression, CoalesceOperator
Expression = RelationExpression
