"""The query that compares the rows that a job should have written with the rows of its sink.

It is SQL over two names, "expected" and "actual", with columns c0, c1, …; the binder replaces the
names by relations. A result row with `differs` is a differing row; the rows without `differs` only
count equal rows. Thus the result is small if the sides are alike, however large they are, and all
operators with large state can spill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.catalog import Registration, Snapshot, Table, TableColumn
from runnel.dag import DAG
from runnel.planner.bind.query import Binder
from runnel.planner.environment import Environment
from runnel.planner.lower.dag_builder import lower
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Query
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import Physical, tables_of
from runnel.planner.physical.sharing.tables import share_tables
from runnel.planner.plans import QueryPlan
from runnel.planner.rules import apply
from runnel.relation.nodes import Relation, Scan, transform
from runnel.sqltypes import SqlType

EXPECTED, ACTUAL = "expected", "actual"
TOLERANCE, COARSE_TOLERANCE = "1e-9", "1e-6"
"""The greatest relative difference of two sums of floating-point numbers that count as equal, of
DOUBLE and of REAL numbers: the order of the additions differs."""
_ALMOST_INFINITE = "1e300"


@frozen(kw_only=True)
class Compared:
    """The columns to compare.

    count: the number of columns, in both relations.
    loose: indexes of columns whose values may differ by the tolerance.
    coarse: the loose columns of type REAL, which have the coarse tolerance.
    unsorted: indexes of columns by which differing rows are not sorted.
    keys: indexes of key columns; with keys, the sink has one row for each key.
    is_ordered: whether the last expected row of each key counts, by an additional column of the
        expected rows; otherwise, or if several are last, any one of them may be in the sink.
    may_lack: whether a BOOLEAN column follows, which says whether the row must be in the sink.
    """

    count: int
    loose: tuple[int, ...] = ()
    coarse: tuple[int, ...] = ()
    unsorted: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    is_ordered: bool = False
    may_lack: bool = False

    @property
    def apart(self) -> tuple[int, ...]:
        """The columns that the result has twice: the expected and the actual value."""
        return (
            tuple(i for i in range(self.count) if i not in self.keys) if self.keys else self.loose
        )

    @property
    def together(self) -> tuple[int, ...]:
        """The columns that the result has once."""
        return tuple(i for i in range(self.count) if i not in self.apart)

    def tolerance(self, column: int) -> str:
        """How much the values of a loose column may differ."""
        return COARSE_TOLERANCE if column in self.coarse else TOLERANCE


def comparison_sql(compared: Compared) -> str:
    """The query; its columns are `differs`, `expected_rows`, `actual_rows`, `same_rows`, then the
    columns of `together`, and of `apart` the expected and the actual values."""
    judged = _by_key(compared) if compared.keys else _as_bags(compared)
    columns = [(i, f"c{i}") for i in compared.together]
    columns += [(i, f"{side}{i}") for i in compared.apart for side in ("e", "a")]
    shown = [name for _, name in columns]
    order = ", ".join(
        [
            "1",
            *(str(5 + at) for at, (i, _) in enumerate(columns) if i not in compared.unsorted),
        ]
    )
    different = ", ".join(f"CASE WHEN NOT fits THEN {name} END AS {name}" for name in shown)
    numbers = ", ".join(str(number) for number in (1, *range(5, 5 + len(shown))))
    return f"""
        SELECT NOT fits AS differs, SUM(expected_rows) AS expected_rows,
            SUM(actual_rows) AS actual_rows,
            SUM(same_rows) AS same_rows, {different}
        FROM ({judged}) AS judged GROUP BY {numbers} ORDER BY {order}"""


def _as_bags(compared: Compared) -> str:
    """Compares the number of occurrences of each row on both sides.

    With loose columns, the surplus rows of both sides are sorted, and the nth row of one side is
    paired with the nth row of the other side.
    """
    columns = ", ".join(f"c{i}" for i in range(compared.count))
    counted = f"""
        SELECT {columns}, SUM(e) AS e, SUM(a) AS a FROM (
            SELECT {columns}, 1 AS e, 0 AS a FROM {EXPECTED} UNION ALL
                SELECT {columns}, 0 AS e, 1 AS a FROM {ACTUAL}
        ) AS both_sides GROUP BY {columns}"""
    if not compared.loose:
        return f"""
            SELECT e = a AS fits, GREATEST(e - a, 0) AS expected_rows,
                GREATEST(a - e, 0) AS actual_rows,
                LEAST(e, a) AS same_rows, {columns}
            FROM ({counted}) AS counted"""
    exact = [f"c{i}" for i in compared.together]
    parts = ", ".join([*exact, "SIGN(e - a)"])
    order = ", ".join(f"c{i}" for i in compared.loose)
    sides = ", ".join(
        f"MAX(CASE WHEN e >= a THEN c{i} END) AS e{i}, MAX(CASE WHEN e <= a THEN c{i} END) AS a{i}"
        for i in compared.loose
    )
    keys = ", ".join([*exact, "CASE WHEN e = a THEN 1 ELSE 0 END", "number"])
    shown = "".join(f", {name}" for name in exact)
    fits = " AND ".join(
        ["more = fewer", *(_close(f"e{i}", f"a{i}", compared.tolerance(i)) for i in compared.loose)]
    )
    names = "".join(f", e{i}, a{i}" for i in compared.loose)
    return f"""
        SELECT fits, CASE WHEN fits THEN 0 ELSE more END AS expected_rows,
            CASE WHEN fits THEN 0 ELSE fewer END AS actual_rows,
            same + CASE WHEN fits THEN more ELSE 0 END AS same_rows{shown}{names}
        FROM (SELECT *, {fits} AS fits FROM (
            SELECT SUM(GREATEST(e - a, 0)) AS more, SUM(GREATEST(a - e, 0)) AS fewer,
                SUM(LEAST(e, a)) AS same{shown}, {sides}
            FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {parts} ORDER BY {order}) AS number
                FROM ({counted}) AS counted) AS numbered
            GROUP BY {keys}) AS paired) AS judged_pairs"""


def _by_key(compared: Compared) -> str:
    """Compares the last expected row of each key with the actual row of the key."""
    keys = [f"c{i}" for i in compared.keys]
    key_list = ", ".join(keys)
    columns = ", ".join(f"c{i}" for i in range(compared.count))
    must = "must" if compared.may_lack else "TRUE"
    expected = EXPECTED
    if compared.is_ordered:
        expected = f"""(SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY {key_list}
            ORDER BY happened DESC) AS place
            FROM {EXPECTED}) AS ranked WHERE place = 1)"""
    candidates = f"SELECT DISTINCT {columns}, {must} AS must FROM {expected} AS candidates"
    both = ", ".join(f"COALESCE(x.{key}, y.{key}) AS {key}" for key in keys)
    values = "".join(f", x.c{i} AS e{i}, y.c{i} AS a{i}" for i in compared.apart)
    names = "".join(f", e{i}, a{i}" for i in compared.apart)
    same = [
        _close(f"x.c{i}", f"y.c{i}", compared.tolerance(i))
        if i in compared.loose
        else f"x.c{i} IS NOT DISTINCT FROM y.c{i}"
        for i in compared.apart
    ]
    fits = " AND ".join(["x.here", "y.here", *same])
    on = " AND ".join(f"x.{key} = y.{key}" for key in keys)
    paired = f"""
        SELECT {both}{values}, COALESCE(x.here, FALSE) AS is_expected,
            COALESCE(y.here, FALSE) AS is_actual,
            COALESCE(x.must, TRUE) AS must, CASE WHEN {fits} THEN 1 ELSE 0 END AS fitting
        FROM (SELECT *, TRUE AS here FROM ({candidates}) AS every) AS x
        FULL JOIN (SELECT *, TRUE AS here FROM {ACTUAL}) AS y ON {on}"""
    # Any one of several expected rows may be in the sink; the actual row is shown once.
    over = f"OVER (PARTITION BY {key_list})"
    judged = f"""
        SELECT *, MAX(fitting) {over} = 1 OR (NOT is_actual AND MAX(CASE WHEN must THEN 1 ELSE 0
            END) {over} = 0) AS fits,
            ROW_NUMBER() OVER (PARTITION BY {key_list} ORDER BY fitting DESC) AS number
        FROM ({paired}) AS paired"""
    return f"""
        SELECT fits, CASE WHEN is_expected AND NOT fits THEN 1 ELSE 0 END AS expected_rows,
            CASE WHEN is_actual AND NOT fits AND number = 1 THEN 1 ELSE 0 END AS actual_rows,
            CASE WHEN fitting = 1 AND number = 1 THEN 1 ELSE 0 END AS same_rows, {key_list}{names}
        FROM ({judged}) AS judged_keys"""


def _close(left: str, right: str, tolerance: str) -> str:
    """SQL for whether two floating-point numbers, or NULLs, are equal within the tolerance."""
    return f"""CASE WHEN {left} IS NOT DISTINCT FROM {right} THEN TRUE WHEN {left} IS NULL OR
        {right} IS NULL THEN FALSE
        WHEN ABS({left}) > {_ALMOST_INFINITE} OR ABS({right}) > {_ALMOST_INFINITE} THEN FALSE
        ELSE ABS({left} - {right}) <= {tolerance} * GREATEST(ABS({left}), ABS({right})) END"""


class _Stand(Table):
    """A table that represents a name until it is replaced by its relation."""

    connector = ""

    def __init__(self, name: str, relation: Relation, names: Sequence[str]) -> None:
        self.name = name
        self.relation = relation
        self.columns = tuple(
            TableColumn(name, item.type) for name, item in zip(names, relation.fields, strict=True)
        )

    def row_count(self) -> int | None:
        return None


def column_names(compared: Compared) -> list[str]:
    """The names of the columns of the expected rows."""
    more = (["happened"] if compared.is_ordered else []) + (["must"] if compared.may_lack else [])
    return [f"c{i}" for i in range(compared.count)] + more


def plan_comparison(
    compared: Compared,
    expected: Relation,
    actual: Relation,
    environment: Environment,
    parameters: tuple[SqlType, ...],
) -> QueryPlan:
    """The plan of the comparison of two relations."""
    names = column_names(compared)
    stands = [_Stand(EXPECTED, expected, names), _Stand(ACTUAL, actual, names[: compared.count])]
    snapshot = Snapshot({item.name: Registration(item.name, item) for item in stands}, {}, 0)
    sql = comparison_sql(compared)
    statement = parse(sql)
    assert isinstance(statement, Query)
    binder = Binder(sql, snapshot, (), replace(environment, pushdown=None))
    relations: Mapping[str, Relation] = {EXPECTED: expected, ACTUAL: actual}

    def put_in(node: Relation) -> Relation:
        return (
            relations[node.table.name]
            if isinstance(node, Scan) and isinstance(node.table, _Stand)
            else node
        )

    bound = transform(binder.statement_query(statement), put_in)
    logical = apply(bound, check=environment.check)
    physical: Physical = share_tables(choose(logical, snapshot))
    return QueryPlan(
        logical=logical,
        physical=physical,
        fields=bound.fields,
        dag=_dag(physical),
        tables=tables_of(physical),
        is_unbounded=False,
        can_end=True,
        parameters=parameters,
    )


def _dag(physical: Physical) -> Callable[[int], DAG]:
    return lambda parallelism: lower(physical, parallelism)
