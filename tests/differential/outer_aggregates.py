"""Random queries whose subqueries hold aggregates of the outer query.

An aggregate whose arguments are columns of the outer query alone belongs to that query, in whatever
subquery it stands. Left out are an aggregate around a subquery that holds another one, or only a
column of the outer query: DuckDB departs from the standard there.
"""

from __future__ import annotations

from tests.differential.correlated import COMPARISONS, CorrelatedGenerator

OUTER = ("COUNT({0})", "SUM({0})", "MIN({0})", "MAX({0})", "SUM({0} + {1})", "COUNT(DISTINCT {0})")
FILTERED = ("COUNT(*)", "COUNT({0})", "SUM({0})", "MAX({0})")
INNER = ("COUNT(*)", "SUM({0})", "MIN({0})", "MAX({0})")


class OuterAggregateGenerator(CorrelatedGenerator):
    """In all methods `outer` is the alias of the outer query's table, and `key` its grouping
    column, if it has one."""

    def query(self) -> tuple[str, bool]:
        outer = self._name()
        key = self._column((outer,)) if self._chance(0.7) else None
        outputs = [self._value_of_group(outer, key) for _ in range(self._pick((1, 2)))]
        if key is not None:
            outputs.insert(0, key)
        where = f" WHERE {outer}.k <> {self._pick((0, 1, 2))}" if self._chance(0.3) else ""
        group = f" GROUP BY {key}" if key is not None else ""
        having = f" HAVING {self._test_of_group(outer, key)}" if self._chance(0.4) else ""
        return (
            f"SELECT {', '.join(outputs)} FROM {self._table()} {outer}{where}{group}{having}",
            False,
        )

    def _value_of_group(self, outer: str, key: str | None) -> str:
        """A scalar subquery of at most one row, or a CASE over a condition."""
        if self._chance(0.2):
            return f"CASE WHEN {self._test_of_group(outer, key)} THEN 1 ELSE 0 END"
        inner, aggregate = self._name(), self._of_outer(outer)
        source = f"FROM {self._table()} {inner}"
        where = f"{source} WHERE {self._inner_condition(inner, key)}"
        column = self._column((inner,))
        own = self._pick(INNER).format(column)
        shapes = [
            f"SELECT {aggregate} {where} LIMIT 1",
            f"SELECT DISTINCT {aggregate} {where}",
            f"SELECT {aggregate} + {own} {where}",
            f"SELECT {own} {source} WHERE {column} {self._pick(COMPARISONS)} {aggregate}",
            f"SELECT {column} {source} WHERE {column} > {aggregate} ORDER BY 1 LIMIT 1",
            f"SELECT z.v FROM (SELECT {aggregate} AS v {where} LIMIT 1) z",
            f"SELECT {aggregate}",
        ]
        if key is not None:
            shapes.append(f"SELECT SUM({column} + {key}) - {aggregate} {where}")
        return f"({self._pick(shapes)})"

    def _test_of_group(self, outer: str, key: str | None) -> str:
        inner, aggregate = self._name(), self._of_outer(outer)
        column = self._column((inner,))
        source = f"FROM {self._table()} {inner} WHERE {self._inner_condition(inner, key)}"
        rows = f"SELECT 1 {source} AND {column} {self._pick(COMPARISONS)} {aggregate}"
        shapes = (
            f"EXISTS ({rows})",
            f"EXISTS ({rows})",
            f"NOT EXISTS ({rows})",
            f"{self._pick((0, 1, 2, 3))} IN (SELECT {column} + {aggregate} {source})",
            f"(SELECT {aggregate} {source} LIMIT 1) {self._pick(COMPARISONS)} 2",
        )
        return str(self._pick(shapes))

    def _of_outer(self, outer: str) -> str:
        """An aggregate that names columns of the outer query alone."""
        first, second = self._column((outer,)), self._column((outer,))
        if self._chance(0.25):
            aggregate = self._pick(FILTERED).format(first)
            return f"{aggregate} FILTER (WHERE {second} {self._pick(COMPARISONS)} 1)"
        return str(self._pick(OUTER).format(first, second))

    def _inner_condition(self, inner: str, key: str | None) -> str:
        column = self._column((inner,))
        if key is not None and self._chance(0.4):
            return f"{column} = {key}"
        return f"{column} {self._pick(('=', '>', '<>'))} {self._pick((0, 1, 2))}"
