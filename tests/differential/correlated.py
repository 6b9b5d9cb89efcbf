"""Queries with correlated subqueries, made by chance: every kind, in every clause, up to three
levels deep.

A query reads `tables.SIZES`, its numbers are small, and its rows have no order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

NUMBERS = ("k", "i")
AGGREGATES = (
    "COUNT(*)",
    "COUNT({0})",
    "SUM({0})",
    "MIN({0})",
    "MAX({0})",
    "COUNT(DISTINCT {0})",
    "SUM({0} + {1})",
)
COMPARISONS = ("=", "=", "=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM")
SET_OPERATIONS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT")
Names = tuple[str, ...]


class CorrelatedGenerator:
    """Makes queries from one source of chance. In all methods `outer` are the names of the tables
    around."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self._names = 0

    def query(self) -> tuple[str, bool]:
        """A query, and whether its rows have an order."""
        shapes = (
            self._plain,
            self._plain,
            self._grouped,
            self._joined,
            self._lateral,
            self._lateral,
            self._ordered,
        )
        return self._pick(shapes)(), False

    def _plain(self) -> str:
        name = self._name()
        where = f" WHERE {self._condition((name,), 2)}" if self._chance(0.6) else ""
        return (
            f"SELECT {name}.k, {name}.i, {self._value((name,), 2)} "
            f"FROM {self._table()} {name}{where}"
        )

    def _grouped(self) -> str:
        name = self._name()
        key = self._column((name,))
        above = self._value((name,), 1).replace(f"{name}.k", key).replace(f"{name}.i", key)
        having = f" HAVING {self._exists((name,), 1)}".replace(f"{name}.k", key).replace(
            f"{name}.i", key
        )
        inside = self._value((name,), 1)
        return (
            f"SELECT {key}, COUNT(*), SUM({inside}), {above} FROM {self._table()} {name} "
            f"GROUP BY {key}{having if self._chance(0.5) else ''}"
        )

    def _joined(self) -> str:
        left, right = self._name(), self._name()
        kind = self._pick(("JOIN", "LEFT JOIN", "RIGHT JOIN"))
        condition = f"{left}.k = {right}.k AND {self._condition((left, right), 1)}"
        return (
            f"SELECT {left}.i, {right}.i FROM {self._table()} {left} {kind} {self._table()} "
            f"{right} ON {condition}"
        )

    def _lateral(self) -> str:
        left, right = self._name(), self._name()
        inner = self._rows((left,), 2)
        join = self._pick(
            (
                ", LATERAL ({0}) {1}(v)",
                " LEFT JOIN LATERAL ({0}) {1}(v) ON TRUE",
                " JOIN LATERAL ({0}) {1}(v) ON {2}",
            )
        )
        condition = f"{right}.v {self._pick(COMPARISONS)} {left}.i"
        return f"SELECT {left}.k, {left}.i, {right}.v FROM {self._table()} {left}" + join.format(
            inner, right, condition
        )

    def _ordered(self) -> str:
        name = self._name()
        inner = (
            f"SELECT {name}.k AS k FROM {self._table()} {name} "
            f"ORDER BY {self._scalar((name,), 1)}, {name}.k LIMIT 5"
        )
        return f"SELECT COUNT(*) FROM ({inner}) {self._name()}"

    # Values

    def _value(self, outer: Names, depth: int) -> str:
        match self.source.randrange(6):
            case 0:
                return (
                    f"CASE WHEN {self._condition(outer, depth)} THEN {self._scalar(outer, depth)} "
                    "ELSE -1 END"
                )
            case 1:
                return f"CASE WHEN {self._exists(outer, depth)} THEN 1 ELSE 0 END"
            case 2:
                return f"COALESCE({self._scalar(outer, depth)}, -7) + {self._column(outer)}"
        return self._scalar(outer, depth)

    def _scalar(self, outer: Names, depth: int) -> str:
        """A subquery of one column and at most one row."""
        name = self._name()
        around = (*outer, name)
        source = f"FROM {self._source(name, outer)} WHERE {self._conditions(around, depth)}"
        match self.source.randrange(7):
            case 0:
                order = f"{name}.i{self._pick(('', ' DESC'))}"
                offset = self._pick(("", "", " OFFSET 1"))
                return f"(SELECT {name}.i {source} ORDER BY {order} LIMIT 1{offset})"
            case 1:
                value = f"{name}.v"
                aggregate = self._pick(AGGREGATES).format(value, value)
                return f"(SELECT {aggregate} FROM ({self._rows(outer, depth)}) {name}(v))"
            case 2:
                group = self._column((name,))
                return (
                    f"(SELECT MAX(z.c) FROM (SELECT {group}, "
                    f"{self._aggregate(around)} AS c {source} GROUP BY {group}) z)"
                )
            case 3:
                return (
                    f"(SELECT {self._aggregate(around)} {source} "
                    f"HAVING COUNT(*) {self._pick(('>', '=', '<'))} 1)"
                )
            case 4:
                return f"(SELECT {self._aggregate(around)} + {self._column(outer)} {source})"
        return f"(SELECT {self._aggregate(around)} {source})"

    def _rows(self, outer: Names, depth: int) -> str:
        """A query of one column and any number of rows."""
        name = self._name()
        around = (*outer, name)
        source = f"FROM {self._source(name, outer)} WHERE {self._conditions(around, depth)}"
        match self.source.randrange(9):
            case 0:
                return f"SELECT DISTINCT {self._number(around)} {source}"
            case 1:
                tail = self._pick(("LIMIT 2", "LIMIT 1 OFFSET 1", "OFFSET 1"))
                value = self._number(around)
                return (
                    f"SELECT {value} AS v {source} ORDER BY {value} {self._pick(('', 'DESC'))} "
                    f"{tail}"
                )
            case 2:
                other = f"SELECT {self._number(outer)} FROM {self._table()} {self._name()}"
                return (
                    f"SELECT {self._number(around)} {source} {self._pick(SET_OPERATIONS)} {other}"
                )
            case 3:
                other, inner = self._name(), self._name()
                where = self._conditions((*outer, other), depth - 1)
                second = (
                    f"SELECT {self._number((*outer, other))} FROM {self._table()} {other} "
                    f"WHERE {where}"
                )
                combined = (
                    f"SELECT {self._number(around)} AS v {source} {self._pick(SET_OPERATIONS)} "
                    f"{second}"
                )
                return f"SELECT {inner}.v FROM ({combined}) {inner}"
            case 4:
                group = self._column((name,))
                return f"SELECT {self._aggregate(around)} {source} GROUP BY {group}"
            case 5:
                return f"SELECT {self._aggregate(around)} {source}"
            case 6:
                other = self._name()
                kind = self._pick(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
                joined = (
                    f"FROM {self._table()} {name} {kind} {self._table()} {other} ON {name}.k = "
                    f"{other}.k"
                )
                return (
                    f"SELECT {self._number((*around, other))} {joined} "
                    f"WHERE {self._conditions((*around, other), depth)}"
                )
        return f"SELECT {self._number(around)} {source}"

    def _source(self, name: str, outer: Names) -> str:
        """A table or a derived one, called `name`, with columns k and i."""
        if self._chance(0.75):
            return f"{self._table()} {name}"
        inner = self._name()
        return (
            f"(SELECT {inner}.k, {inner}.i FROM {self._table()} {inner} "
            f"WHERE {self._column((inner,))} {self._pick(COMPARISONS)} {self._column(outer)}) "
            f"{name}"
        )

    # Conditions

    def _conditions(self, names: Names, depth: int) -> str:
        """A condition that most often equates a column of the last table with one of the others."""
        parts = []
        if self._chance(0.8):
            parts.append(
                f"{self._column(names[-1:])} {self._pick(COMPARISONS)} {self._column(names[:-1])}"
            )
        if not parts or self._chance(0.3):
            parts.append(self._condition(names, depth - 1))
        return " AND ".join(parts)

    def _condition(self, names: Names, depth: int) -> str:
        if depth <= 0 or self._chance(0.4):
            return f"{self._number(names)} {self._pick(COMPARISONS)} {self._number(names)}"
        match self.source.randrange(5):
            case 0:
                return (
                    f"{self._number(names)} {self._pick(COMPARISONS[:-1])} "
                    f"{self._scalar(names, depth - 1)}"
                )
            case 1:
                return f"({self._condition(names, depth - 1)} OR {self._exists(names, depth - 1)})"
            case 2:
                return f"NOT ({self._exists(names, depth - 1)})"
        return self._exists(names, depth - 1)

    def _exists(self, names: Names, depth: int) -> str:
        rows = self._rows(names, depth)
        match self.source.randrange(5):
            case 0:
                return f"EXISTS ({rows})"
            case 1:
                return f"NOT EXISTS ({rows})"
            case 2:
                return f"{self._number(names)} IN ({rows})"
            case 3:
                return f"{self._number(names)} NOT IN ({rows})"
        quantifier = self._pick(("ANY", "ALL"))
        return f"{self._number(names)} {self._pick(COMPARISONS[2:-1])} {quantifier} ({rows})"

    # Parts

    def _aggregate(self, names: Names) -> str:
        return self._pick(AGGREGATES).format(self._column(names[-1:]), self._column(names))

    def _number(self, names: Names) -> str:
        column = self._column(names)
        return self._pick(
            (column, column, column, f"{column} + 1", "1", f"{column} + {self._column(names)}")
        )

    def _column(self, names: Names) -> str:
        return f"{self._pick(names)}.{self._pick(NUMBERS)}"

    def _table(self) -> str:
        return self._pick(("a", "b", "b", "c", "c", "e"))

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _pick(self, choices: Sequence[Any]) -> Any:
        return self.source.choice(choices)

    def _chance(self, likelihood: float) -> bool:
        return self.source.random() < likelihood
