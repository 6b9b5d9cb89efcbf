"""Queries made by chance whose subqueries, and joins, have conditions that read one side alone, or
none.

Such a subquery is the same for all rows around it, and engines have shortcuts for it. A query reads
`tables.SIZES`.
"""

from __future__ import annotations

import random
from typing import Any

CONDITIONS = (
    "{0}.f + 0e0 = 0e0",
    "{0}.k = 0",
    "{0}.k + 1 < {1}",
    "LENGTH({0}.s) = 1",
    "COALESCE({0}.s, 'b') <> 'a'",
    "{0}.b",
    "NOT {0}.b",
    "{0}.s IS NULL",
    "{0}.k IN (0, {1})",
    "CASE WHEN {0}.i = 0 THEN TRUE ELSE {0}.b END",
)
BETWEEN = (
    "{0}.b = {1}.b",
    "{0}.k = {1}.k",
    "COALESCE({0}.s, 'b') <> {1}.s",
    "{0}.f + 0e0 = {1}.f + 0e0",
    "({0}.s IS NULL OR {1}.s IS NULL)",
)
CONSTANTS = ("0e0", "0e0", "1", "'a'", "TRUE", "CAST(NULL AS INTEGER)", "{1}")
COLUMNS = {"0e0": "f", "'a'": "s", "TRUE": "b"}
IN_WHERE = (
    *(
        "EXISTS ({rows})",
        "NOT EXISTS ({rows})",
        "EXISTS ({rows}) IS TRUE",
        "(EXISTS ({rows}) OR {own})",
    ),
    *["{constant} IN ({values})"] * 15,
    *("{constant} NOT IN ({values})", "({constant} IN ({values})) IS NOT TRUE"),
    *(
        "({constant} IN ({values}) OR {own})",
        "{constant} = ANY ({values})",
        "{constant} <> ALL ({values})",
    ),
    *(
        "(SELECT COUNT(*) FROM {table} x WHERE {inner}) > 0",
        "(SELECT MAX(x.k) FROM {table} x WHERE {inner}) > {1}",
    ),
    "(SELECT x.k FROM {table} x WHERE {inner} ORDER BY x.k, x.i LIMIT 1) = 0",
    "EXISTS (SELECT 1 FROM {table} x WHERE {inner} AND {own})",
    "NOT EXISTS (SELECT 1 FROM {table} x WHERE {inner} AND {own})",
)
IN_FROM = (
    *(
        "CROSS JOIN (SELECT x.k FROM {table} x WHERE {inner} ORDER BY x.k, x.i LIMIT 1) y",
        "LEFT JOIN {table} x ON {inner}",
    ),
    *(
        "JOIN {table} x ON {inner}",
        "LEFT JOIN LATERAL (SELECT x.k FROM {table} x WHERE {inner}) y ON TRUE",
    ),
    *(
        "LEFT JOIN {table} x ON {own}",
        "FULL JOIN (SELECT x.k FROM {table} x WHERE {inner}) y ON 1 = 2",
    ),
    ", LATERAL (SELECT COUNT(*) AS n FROM {table} x WHERE {inner}) y",
)


class OneSidedGenerator:
    """Makes queries from one source of chance. With `arguments` some of the numbers are parameters,
    whose values stand there after each query."""

    def __init__(self, source: random.Random, arguments: list[Any] | None = None) -> None:
        self.source = source
        self._arguments = arguments

    def query(self) -> tuple[str, bool]:
        """A query, and whether its rows have an order."""
        if self._arguments is not None:
            self._arguments.clear()
        pick = self.source.choice
        names, source = ["r0"], f"{pick('abc')} r0"
        for number in range(1, pick((1, 2, 2, 2, 3))):
            table, kind = (
                pick("ccbe"),
                pick(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN")),
            )
            source += (
                f" {kind} {table} r{number} ON {pick(BETWEEN).format(pick(names), f'r{number}')}"
            )
            names.append(f"r{number}")
        tests = (
            [pick(BETWEEN[2:]).format(*self.source.sample([*names, "r0"], 2))]
            if self._chance(0.9)
            else []
        )
        if self._chance(0.1):
            tests.append(self._number(self._condition(pick(names))))
        output = ", ".join(
            f"{name}.{pick('ksb')}" for name in dict.fromkeys((pick(names), pick(names)))
        )
        if self._chance(0.2):
            source += " " + self._filled(pick(IN_FROM), names)
            shown = f"SELECT {output} FROM {source}"
        elif self._chance(0.15):
            shown = f"SELECT {output}, {self._filled(pick(IN_WHERE), names)} FROM {source}"
        else:
            shown = f"SELECT {output} FROM {source}"
            tests.append(self._filled(pick(IN_WHERE), names))
        return shown + (f" WHERE {' AND '.join(tests)}" if tests else ""), False

    def _filled(self, text: str, names: list[str]) -> str:
        table, constant, inner = (
            self.source.choice("abce"),
            self.source.choice(CONSTANTS),
            self._condition("x"),
        )
        where = f" FROM {table} x" + (f" WHERE {inner}" if self._chance(0.6) else "")
        values = f"SELECT x.{COLUMNS.get(constant, 'k')}{where}"
        for name, part in {
            "{table}": table,
            "{inner}": inner,
            "{rows}": f"SELECT 1{where}",
            "{values}": values,
            "{constant}": constant,
            "{own}": self._condition(self.source.choice(names)),
        }.items():
            text = text.replace(name, part)
        return self._number(text)

    def _condition(self, name: str) -> str:
        return self.source.choice(CONDITIONS).replace("{0}", name)

    def _number(self, text: str) -> str:
        """The text with numbers, some of them parameters, in the places of {1}, in no order: they
        are alike."""
        while "{1}" in text:
            number, is_parameter = (
                self.source.choice((0, 1, 2)),
                self._arguments is not None and self._chance(0.5),
            )
            if self._arguments is not None and is_parameter:
                self._arguments.append(number)
            text = text.replace("{1}", "?" if is_parameter else str(number), 1)
        return text

    def _chance(self, likelihood: float) -> bool:
        return self.source.random() < likelihood
