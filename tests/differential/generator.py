"""Queries made by chance, that mean the same to both engines and never fail for a value.

A query reads `tables.SIZES`. Expressions are typed, so that every query is valid; results don't
depend on the order of rows: LIMIT comes only with an ORDER BY of all columns.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.differential.tables import KINDS, SIZES

KINDS_IN_USE = ("int", "int", "int", "float", "text", "text", "decimal", "bool", "date", "time")
LITERALS = {
    "int": ("0", "1", "2", "-1", "3", "CAST(NULL AS INTEGER)"),
    "float": ("0e0", "-0e0", "1.5e0", "CAST('NaN' AS DOUBLE)", "CAST(NULL AS DOUBLE)"),
    "text": ("''", "'a'", "'b'", "'é'", "CAST(NULL AS VARCHAR)"),
    "decimal": ("0.00", "1.5", "-2.25", "CAST(NULL AS DECIMAL(5, 1))"),
    "bool": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
    "date": ("DATE '2024-02-29'", "DATE '1969-12-31'", "CAST(NULL AS DATE)"),
    "time": ("TIMESTAMP '2024-02-29 12:30:00'", "CAST(NULL AS TIMESTAMP)"),
}


PARAMETERS: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "int": ("INTEGER", (("0", 0), ("1", 1), ("2", 2), ("-1", -1))),
    "float": ("DOUBLE", (("0e0", 0.0), ("1.5e0", 1.5))),
    "text": ("VARCHAR", (("''", ""), ("'a'", "a"), ("'é'", "é"))),
    "decimal": ("DECIMAL(9, 2)", (("1.5", Decimal("1.5")), ("-2.25", Decimal("-2.25")))),
    "bool": ("BOOLEAN", (("TRUE", True), ("FALSE", False))),
    "date": (
        "DATE",
        (("DATE '2024-02-29'", date(2024, 2, 29)), ("DATE '1969-12-31'", date(1969, 12, 31))),
    ),
    "time": ("TIMESTAMP", (("TIMESTAMP '2024-02-29 12:30:00'", datetime(2024, 2, 29, 12, 30)),)),
}
"""By kind: the type, and values as literals and as arguments."""
_MARK = re.compile(r"\x02(\d+)\x03")
NUMBERS = ("1", "0", "2", "2 - 1", "CAST(1 AS INTEGER)", "ABS(-1)", "COALESCE(NULL, 1)")
TEXTS = ("'a'", "'a' || 'b'", "CAST('b' AS VARCHAR)")
"""Constants, of which some aren't literals, for options of functions."""
ORDERED_KINDS = ("int", "int", "text", "decimal", "bool", "date", "time")
"""Kinds whose values are told apart in an order as they are by equality."""


@dataclass(frozen=True)
class Column:
    """A column in scope: how it is written, and what it holds."""

    text: str
    kind: str


Columns = tuple[Column, ...]
Query = tuple[str, list[str], int]
"""A query's text, the kinds of its columns, and how many rows it gives at most."""

MOST_ROWS = 30_000
"""No join may come to more rows."""


@dataclass(frozen=True)
class Scope:
    """What an expression may name, and how deep it may go. `outer`: columns of the query around
    it."""

    columns: Columns
    outer: Columns = ()
    depth: int = 2
    has_subqueries: bool = True

    def deeper(self) -> Scope:
        return replace(self, depth=self.depth - 1)

    def plain(self) -> Scope:
        return replace(self, has_subqueries=False)


class Generator:
    """Makes queries from one source of chance. With `arguments` some constants are parameters,
    whose values stand there after each query."""

    def __init__(self, source: random.Random, arguments: list[Any] | None = None) -> None:
        self.source = source
        self._arguments = arguments
        self._parameters: list[tuple[str, Any]] = []
        self._names = 0

    def query(self) -> tuple[str, bool]:
        """A query, and whether its rows have an order."""
        text, is_ordered = self._query()
        if self._arguments is not None:
            # Parts were made that aren't in the text: only what is in it counts, in its order.
            self._arguments[:] = [
                self._parameters[int(number)][1] for number in _MARK.findall(text)
            ]
        return _MARK.sub("?", text), is_ordered

    def _query(self) -> tuple[str, bool]:
        self._parameters.clear()
        text, kinds, _ = self._body(2)
        if self._chance(0.5):
            return text, False
        order = list(range(1, len(kinds) + 1))
        self.source.shuffle(order)
        orders = ("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST", " ASC NULLS FIRST")
        keys = ", ".join(f"{at}{self._pick(*orders)}" for at in order)
        limit = self._pick("", "", " LIMIT 3", " LIMIT 5 OFFSET 2", " OFFSET 3", " LIMIT 0")
        return f"SELECT * FROM ({text}) AS {self._name()} ORDER BY {keys}{limit}", True

    # Queries

    def _body(self, depth: int) -> Query:
        """A query without order; its columns are named c0, c1, …"""
        choice = self.source.random()
        if depth > 0 and choice < 0.15:
            return self._set_operation(depth)
        if depth > 0 and choice < 0.25:
            return self._with(depth)
        return self._select(depth)

    def _set_operation(self, depth: int) -> Query:
        kinds = [self._kind() for _ in range(self.source.randint(1, 3))]
        operation = self._pick(
            "UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"
        )
        left, right = (self._select(depth - 1, kinds) for _ in range(2))
        return f"({left[0]}) {operation} ({right[0]})", kinds, left[2] + right[2]

    def _with(self, depth: int) -> Query:
        inner, kinds, rows = self._body(depth - 1)
        if rows * rows > MOST_ROWS:
            return inner, kinds, rows
        name, one, two = self._name(), self._name(), self._name()
        columns = self._columns(one, kinds) + self._columns(two, kinds)
        join = self._pick("JOIN", "LEFT JOIN", "FULL JOIN")
        condition = " AND ".join(
            f"{one}.c{at} = {two}.c{at}" for at in range(len(kinds)) if at == 0 or self._chance(0.3)
        )
        text, out = self._outputs(Scope(columns, depth=1, has_subqueries=False), None)
        return (
            (
                f"WITH {name} AS ({inner}) SELECT {text} "
                f"FROM {name} AS {one} {join} {name} AS {two} ON {condition}"
            ),
            out,
            rows * rows,
        )

    def _select(self, depth: int, kinds: list[str] | None = None) -> Query:
        source, columns, rows = self._from(depth)
        scope = Scope(columns, has_subqueries=depth > 0)
        where = f" WHERE {self._condition(scope)}" if self._chance(0.35) else ""
        if self._chance(0.35):
            outputs, kinds, group = self._grouped(scope.plain(), kinds)
            return f"SELECT {outputs} FROM {source}{where}{group}", kinds, rows
        if self._chance(0.12):
            return self._distinct_on(scope, kinds, f"{source}{where}", rows)
        outputs, kinds = self._outputs(scope, kinds)
        return (
            f"SELECT {self._pick('', '', 'DISTINCT ')}{outputs} FROM {source}{where}",
            kinds,
            rows,
        )

    def _distinct_on(self, scope: Scope, kinds: list[str] | None, source: str, rows: int) -> Query:
        """The first row of each group, in an order of all columns."""
        if kinds is None and self._chance(0.5):
            kinds = ["text"]
            outputs = f"{self._telling('text', scope)} AS c0"
        else:
            outputs, kinds = self._outputs(scope.plain(), kinds)
        key = self._literally(self._expression(self._pick(*ORDERED_KINDS), scope.deeper().plain()))
        if _is_constant(key, scope):
            return f"SELECT DISTINCT {outputs} FROM {source}", kinds, rows
        key = self._pick(key, f"({key})")
        order = ", ".join([key, *(str(at) for at in range(1, len(kinds) + 1))])
        return (
            (
                f"SELECT * FROM (SELECT DISTINCT ON ({key}) {outputs} FROM {source} "
                f"ORDER BY {order}) AS {self._name()}"
            ),
            kinds,
            rows,
        )

    def _outputs(self, scope: Scope, kinds: list[str] | None) -> tuple[str, list[str]]:
        kinds = kinds or [
            self._pick(*KINDS_IN_USE, "bool") for _ in range(self.source.randint(1, 3))
        ]
        texts = [
            self._telling(kind, scope) if self._chance(0.25) else self._expression(kind, scope)
            for kind in kinds
        ]
        return ", ".join(f"{text} AS c{at}" for at, text in enumerate(texts)), kinds

    def _telling(self, kind: str, scope: Scope) -> str:
        """A call with OVER, or a function whose options are constants."""
        match kind:
            case "int":
                return self._window(scope)
            case "decimal":
                return f"ROUND({self._column(kind, scope)}, {self._pick(*NUMBERS)})"
            case "text":
                return f"REPLACE({self._column(kind, scope)}, {self._pick(*TEXTS)}, 'c')"
        return self._expression(kind, scope)

    def _window(self, scope: Scope) -> str:
        """A call with OVER whose value doesn't depend on the order of rows that are alike."""
        inner = scope.deeper().plain()
        call = self._pick(
            "COUNT(*)",
            "RANK()",
            "DENSE_RANK()",
            *(f"{name}({self._column('int', scope)})" for name in ("SUM", "MAX")),
        )
        keys = [self._key(inner) for _ in range(self._pick(0, 1, 1, 2))]
        order = [f"{self._key(inner)}{self._pick('', ' DESC')}" for _ in range(self._pick(0, 1, 1))]
        if "RANK" in call and not order:
            order = [self._key(inner)]
        parts = [f"PARTITION BY {', '.join(keys)}"] * bool(keys) + [
            f"ORDER BY {', '.join(order)}"
        ] * bool(order)
        return f"CAST({call} OVER ({' '.join(parts)}) AS BIGINT)"

    def _key(self, scope: Scope) -> str:
        """An expression to divide or sort by, perhaps in parentheses; not a constant."""
        kind = self._pick(*ORDERED_KINDS)
        text = self._expression(kind, scope)
        if kind == "int" and self._chance(0.3):
            text = f"{self._column(kind, scope)} + {self._constant(kind)}"
        if _is_constant(text, scope):
            text = self._column(kind, scope)
        return self._pick(text, text, f"({text})")

    def _column(self, kind: str, scope: Scope) -> str:
        """A column of the kind, or of any; a literal where there are none."""
        columns = [column for column in scope.columns if column.kind == kind]
        return self._pick(*columns).text if columns else self._pick(*LITERALS[kind])

    def _grouped(self, scope: Scope, kinds: list[str] | None) -> tuple[str, list[str], str]:
        """Outputs, their kinds, and GROUP BY … HAVING …"""
        keys = [
            self._expression(self._kind(), scope.deeper())
            for _ in range(self.source.choice((0, 1, 1, 2)))
        ]
        keys = [self._literally(key) for key in keys if not _is_constant(key, scope)]
        outputs, out = [], []
        if kinds is None:
            # Keys first, by ordinal or by what they are; then aggregates.
            for key in keys:
                outputs.append(key)
                out.append("any")
            kinds = [self._kind() for _ in range(self.source.randint(1, 2))]
        outputs += [self._aggregate(kind, scope) for kind in kinds]
        out += kinds
        if "any" in out:
            group = (
                ", ".join(str(at) for at in range(1, len(keys) + 1))
                if self._chance(0.5)
                else ", ".join(keys)
            )
        else:
            group = ", ".join(self._pick(key, key, f"({key})") for key in keys)
        having = (
            f" HAVING {self._aggregate('int', scope)} {self._pick('>', '<>', '<=')} 1"
            if keys and self._chance(0.3)
            else ""
        )
        texts = ", ".join(f"{text} AS c{at}" for at, text in enumerate(outputs))
        return texts, out, (f" GROUP BY {group}" if keys else "") + having

    def _aggregate(self, kind: str, scope: Scope) -> str:
        argument = self._expression(kind, scope.deeper())
        distinct = self._pick("", "", "DISTINCT ")
        match kind:
            case "int":
                text = self._pick(
                    "COUNT(*)",
                    f"COUNT({distinct}{argument})",
                    f"SUM({distinct}{argument})",
                    f"MIN({argument})",
                )
            case "float":
                text = self._pick(
                    f"SUM({distinct}{argument})",
                    f"MAX({argument})",
                    f"AVG({distinct}{argument})",
                    f"MIN({argument})",
                )
            case "decimal":
                text = self._pick(
                    f"SUM({distinct}{argument})", f"MAX({argument})", f"MIN({argument})"
                )
            case "bool":
                text = self._pick(f"BOOL_AND({argument})", f"BOOL_OR({argument})")
            case _:
                text = self._pick(f"MIN({argument})", f"MAX({argument})")
        if self._chance(0.3):
            text += f" FILTER (WHERE {self._condition(scope.deeper())})"
        return text

    # FROM

    def _from(self, depth: int) -> tuple[str, Columns, int]:
        text, columns, rows = self._relation(depth)
        for _ in range(self.source.choice((0, 0, 1, 1, 2))):
            other, more, others = self._relation(depth)
            if rows * others > MOST_ROWS:
                continue
            rows = (rows + 1) * (others + 1)
            join = self._pick(
                "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT JOIN", "CROSS JOIN"
            )
            both = columns + more
            if join == "CROSS JOIN":
                text = f"{text} CROSS JOIN {other}"
            else:
                text = f"{text} {join} {other} ON {self._join_condition(columns, more, join)}"
            columns = both
        return text, columns, rows

    def _join_condition(self, left: Columns, right: Columns, join: str) -> str:
        parts = []
        for _ in range(self.source.choice((1, 1, 2))):
            kind = self._kind()
            ours = self._expression(
                kind, Scope(left, depth=self._pick(0, 0, 1), has_subqueries=False)
            )
            theirs = self._expression(
                kind, Scope(right, depth=self._pick(0, 0, 1), has_subqueries=False)
            )
            operator = "=" if not parts else self._pick("=", "=", "<", "<>", "IS NOT DISTINCT FROM")
            parts.append(f"{ours} {operator} {theirs}")
        if self._chance(0.4):
            parts.append(self._condition(Scope(left + right, depth=1, has_subqueries=False)))
        return " AND ".join(f"({part})" for part in parts)

    def _relation(self, depth: int) -> tuple[str, Columns, int]:
        """What stands in FROM, its columns, and how many rows it has at most."""
        name = self._name()
        choice = self.source.random()
        if depth > 0 and choice < 0.2:
            text, kinds, size = self._body(depth - 1)
            return f"({text}) AS {name}", self._columns(name, kinds), size
        if choice < 0.25:
            rows = ", ".join(
                f"({self._pick(*LITERALS['int'])}, {self._pick(*LITERALS['text'])})"
                for _ in range(3)
            )
            return (
                f"(VALUES (0, 'a'), {rows}) AS {name}(c0, c1)",
                self._columns(name, ["int", "text"]),
                4,
            )
        if choice < 0.3:
            return (
                f"TABLE(GENERATE_SERIES(-1, {self._pick(3, 1, -1)})) AS {name}(c0)",
                self._columns(name, ["int"]),
                5,
            )
        table = self._pick(*SIZES, "a", "b", "a", "b", "c")
        columns = tuple(Column(f"{name}.{column}", kind) for column, kind in KINDS.items())
        return f"{table} AS {name}", columns, SIZES[table]

    # Expressions

    def _condition(self, scope: Scope) -> str:
        return self._expression("bool", scope)

    def _expression(self, kind: str, scope: Scope) -> str:
        columns = [column for column in scope.columns if column.kind == kind]
        if scope.outer and self._chance(0.3):
            columns = [column for column in scope.outer if column.kind == kind] or columns
        if scope.depth <= 0 or self._chance(0.3):
            if kind == "bool" and self._chance(0.7):
                return self._comparison(scope)
            if columns and self._chance(0.95):
                return self._pick(*columns).text
            return self._constant(kind)
        return self._compound(kind, scope.deeper())

    def _constant(self, kind: str, is_typed: bool = True) -> str:
        """A literal, or a parameter."""
        if self._arguments is None or not self._chance(0.5):
            return str(self._pick(*LITERALS[kind]))
        name, values = PARAMETERS[kind]
        self._parameters.append(self._pick(*values))
        mark = f"\x02{len(self._parameters) - 1}\x03"
        return f"CAST({mark} AS {name})" if is_typed else mark

    def _literally(self, text: str) -> str:
        """The text with its parameters as literals: to stand in two places, where two parameters
        would be two."""
        return _MARK.sub(lambda mark: self._parameters[int(mark[1])][0], text)

    def _compound(self, kind: str, scope: Scope) -> str:
        one, two = (lambda: self._expression(kind, scope)), (lambda of: self._expression(of, scope))
        choice = self.source.random()
        if choice < 0.15:
            return (
                f"CASE WHEN {two('bool')} THEN {one()} WHEN {two('bool')} THEN "
                f"{one()}{self._pick('', f' ELSE {one()}')} END"
            )
        if choice < 0.25:
            return f"COALESCE({one()}, {one()})"
        if choice < 0.3:
            return f"NULLIF({one()}, {one()})"
        match kind:
            case "int":
                zero = two("int")
                return self._pick(
                    f"({one()} {self._pick('+', '-', '*')} {one()})",
                    f"({one()} {self._pick('/', '%')} NULLIF({zero}, 0))",
                    f"ABS({one()})",
                    f"LENGTH({two('text')})",
                    f"CAST({two('bool')} AS INTEGER)",
                    f"CAST(EXTRACT(DAY FROM {two('date')}) AS INTEGER)",
                    f"(- {one()})",
                )
            case "float":
                return self._pick(
                    f"({one()} {self._pick('+', '-', '*')} {one()})",
                    f"CAST({two('int')} AS DOUBLE)",
                    f"ABS({one()})",
                )
            case "decimal":
                return self._pick(
                    f"({one()} {self._pick('+', '-')} {one()})",
                    f"CAST({two('int')} AS DECIMAL(12, 2))",
                    f"(- {one()})",
                    f"ROUND({one()}, {self._pick(*NUMBERS)})",
                )
            case "text":
                return self._pick(
                    f"({one()} || {one()})",
                    f"UPPER({one()})",
                    f"CAST({two('int')} AS VARCHAR)",
                    f"CAST({two('date')} AS VARCHAR)",
                    f"SUBSTRING({one()}, {self._pick('1', '2 - 1')}, {self._pick(*NUMBERS)})",
                    f"REPLACE({one()}, {self._pick(*TEXTS)}, 'c')",
                    f"LPAD({one()}, {self._pick(*NUMBERS)}, {self._pick(*TEXTS)})",
                )
            case "bool":
                return self._boolean(scope)
            case "date":
                return self._pick(f"CAST({two('time')} AS DATE)", one())
            case _:
                return self._pick(
                    f"CAST({two('date')} AS TIMESTAMP)", f"({one()} + INTERVAL '1' DAY)"
                )

    def _boolean(self, scope: Scope) -> str:
        one = lambda: self._expression("bool", scope)  # noqa: E731
        choice = self.source.random()
        if scope.has_subqueries and choice < 0.35:
            return self._subquery(scope)
        if choice < 0.65:
            return f"({one()} {self._pick('AND', 'OR', 'OR')} {one()})"
        if choice < 0.75:
            return f"(NOT {one()})"
        if choice < 0.85:
            return (
                f"({one()} IS "
                f"{self._pick('NULL', 'NOT NULL', 'TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE')})"
            )
        return self._comparison(scope)

    def _comparison(self, scope: Scope) -> str:
        kind = self._kind()
        inner = scope.deeper().plain() if scope.depth > 0 else scope.plain()
        columns = [column for column in scope.columns if column.kind == kind]
        if columns and self._chance(0.3):
            operator = self._pick("=", "=", "<", ">=", ">", "<=")
            return (
                f"({self._pick(*columns).text} {operator} "
                f"{self._constant(kind, self._chance(0.5))})"
            )
        left, right = self._expression(kind, inner), self._expression(kind, inner)
        operator = self._pick(
            "=",
            "=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "IS DISTINCT FROM",
            "IS NOT DISTINCT FROM",
            "IN",
            "BETWEEN",
            "NULL",
        )
        if operator == "IN":
            items = ", ".join(self._constant(kind) for _ in range(self.source.randint(1, 3)))
            return f"({left} {self._pick('', 'NOT ')}IN ({items}))"
        if operator == "BETWEEN":
            return (
                f"({left} {self._pick('', 'NOT ')}BETWEEN {right} AND "
                f"{self._expression(kind, inner)})"
            )
        if operator == "NULL":
            return f"({left} IS {self._pick('', 'NOT ')}NULL)"
        if kind == "text" and self._chance(0.3):
            return f"({left} {self._pick('', 'NOT ')}LIKE '{self._pick('a%', '%', '_', '%b', '')}')"
        return f"({left} {operator} {right})"

    def _subquery(self, scope: Scope) -> str:
        """EXISTS or IN; with a correlated condition, or without."""
        table, name, kind = self._pick(*SIZES, "a"), self._name(), self._kind()
        columns = tuple(Column(f"{name}.{column}", held) for column, held in KINDS.items())
        inner = Scope(columns, depth=1, has_subqueries=False)
        conditions = []
        if self._chance(0.5):
            conditions.append(self._condition(inner))
        if self._chance(0.5):
            outer = [column for column in scope.columns if column.kind in KINDS.values()]
            if outer:
                mine = self._pick(*outer)
                conditions.append(
                    f"{self._expression(mine.kind, replace(inner, depth=0))} "
                    f"{self._pick('=', '=', '<', '<>')} {mine.text}"
                )
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        not_ = self._pick("", "NOT ")
        choice = self.source.random()
        if choice < 0.4:
            return f"({not_}EXISTS (SELECT 1 FROM {table} AS {name}{where}))"
        if choice < 0.8:
            left = (
                self._constant(kind)
                if self._chance(0.25)
                else self._expression(kind, scope.deeper().plain())
            )
            return (
                f"({left} {not_}IN (SELECT {self._expression(kind, inner)} "
                f"FROM {table} AS {name}{where}))"
            )
        aggregate = (
            f"SELECT {self._pick('MAX', 'MIN')}({self._expression(kind, inner)}) "
            f"FROM {table} AS {name}"
        )
        return (
            f"({self._expression(kind, scope.deeper().plain())} {self._pick('=', '<', '>=')} "
            f"({aggregate}))"
        )

    # Chance

    def _kind(self) -> str:
        return self._pick(*KINDS_IN_USE)

    def _name(self) -> str:
        self._names += 1
        return f"r{self._names}"

    def _columns(self, name: str, kinds: list[str]) -> Columns:
        return tuple(Column(f"{name}.c{at}", kind) for at, kind in enumerate(kinds))

    def _chance(self, probability: float) -> bool:
        return self.source.random() < probability

    def _pick(self, *choices: Any) -> Any:
        return self.source.choice(choices)


def _is_constant(text: str, scope: Scope) -> bool:
    return not any(column.text in text for column in scope.columns)
