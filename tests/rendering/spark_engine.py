"""The edge table in Spark: one session for all, many expressions per query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from runnel.rendering.spark.dialect import SPARK
from tests.rendering import aggregate_cases
from tests.rendering.aggregate_cases import AggregateCase
from tests.rendering.edge_table import ROWS, stored
from tests.rendering.function_cases import FunctionCase, all_cases
from tests.rendering.outcomes import Outcome, difference, own_outcome, rendered, shown
from tests.spark_process import new_session

BATCH = 80
_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
}
"""A zone other than ours and UTC: nothing may depend on it."""


@cache
def session() -> Any:
    """A session that has the table as the view `edges`."""
    made = new_session(_SETTINGS)
    _view(made, "edges", stored())
    return made


def _view(made: Any, name: str, table: pa.Table) -> None:
    """Makes a table known by a name. TIME, which isn't rendered for Spark, comes as a number."""
    plain = [
        item.cast(pa.int64()) if pa.types.is_time(item.type) else item for item in table.columns
    ]
    frame = made.createDataFrame(pa.table(plain, names=table.column_names))
    frame.coalesce(1).cache().createOrReplaceTempView(name)


def run(texts: Sequence[str], condition: str = "TRUE", source: str = "edges") -> pa.Table:
    """The values of expressions in the rows of a view, in the order of the rows."""
    columns = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
    table: pa.Table = (
        session().sql(f"SELECT {columns}, row AS place FROM {source} WHERE {condition}").toArrow()
    )
    return table.sort_by("place").drop_columns(["place"])


def mismatches(cases: Sequence[FunctionCase] | None = None, failing: int = 40) -> list[str]:
    """What Spark does otherwise than our operators; of the cases that can fail, `failing` are tried
    on a row that does."""
    work = []
    for case in all_cases() if cases is None else cases:
        text = rendered(case, SPARK)
        if text is not None:
            work.append((case, text, own_outcome(case)))
    found: list[str] = []
    for start in range(0, len(work), BATCH):
        found += _compared(work[start : start + BATCH])
    can_fail = [item for item in work if item[2].errors]
    for case, text, own in can_fail[:: max(1, len(can_fail) // failing)]:
        row = own.errors[len(own.errors) // 2]
        try:
            run([text], f"row = {row}")
        except Exception:  # whichever class Spark has for it
            continue
        found.append(f"{case.shape}: no error in {shown(case, row)}")
    return found


Work = tuple[FunctionCase, str, Outcome]


def _compared(part: Sequence[Work]) -> list[str]:
    try:
        table = run([_guarded(text, own) for _, text, own in part])
    except Exception as error:
        if len(part) == 1:
            return [f"{part[0][0].shape}: fails: {str(error)[:300]}"]
        middle = len(part) // 2
        return [*_compared(part[:middle]), *_compared(part[middle:])]
    found = []
    for (case, _, own), column in zip(part, table.columns, strict=True):
        failed = set(own.errors)
        rows = [row for row in range(ROWS) if row not in failed]
        kept = column.combine_chunks().take(pa.array(rows, pa.int64()))
        problem = difference(case, Outcome([own.values[row] for row in rows], []), kept, rows)
        found += [] if problem is None else [f"{case.shape}: {problem}"]
    return found


def _guarded(text: str, own: Outcome) -> str:
    """NULL in the rows that fail."""
    return (
        f"CASE WHEN row IN ({', '.join(map(str, own.errors))}) THEN NULL ELSE {text} END"
        if own.errors
        else text
    )


def aggregate_mismatches(
    cases: Sequence[AggregateCase] | None = None, failing: int = 8
) -> list[str]:
    """What Spark's aggregates give otherwise than ours, group by group."""
    _view(session(), "groups", aggregate_cases.engine_table())
    work = []
    for case in aggregate_cases.all_cases() if cases is None else cases:
        text = aggregate_cases.rendered(case, SPARK)
        if text is not None:
            own = aggregate_cases.own_values(case)
            failed = [number for number in range(aggregate_cases.GROUPS) if number not in own]
            work.append((case, text, own, failed))
    whole = [item for item in work if not item[3]]
    found = []
    for start in range(0, len(whole), 20):
        found += _compared_groups(whole[start : start + 20])
    partial = [item for item in work if item[3]]
    by_groups: dict[tuple[int, ...], list[Any]] = {}
    for item in partial:
        by_groups.setdefault(tuple(sorted(item[2])), []).append(item)
    for items in by_groups.values():
        found += _compared_groups(items)
    for case, text, _, failed in partial[:: max(1, len(partial) // failing)]:
        try:
            session().sql(f"SELECT {text} AS v FROM groups WHERE g = {failed[0]}").toArrow()
        except Exception:  # whichever class Spark has for it
            continue
        found.append(f"{case.shape}: no error in group {failed[0]}")
    return found


def _compared_groups(part: Sequence[Any]) -> list[str]:
    """Cases that fail in the same groups, none of which is asked for."""
    groups = ", ".join(map(str, part[0][2])) or "-1"
    columns = ", ".join(f"{text} AS v{i}" for i, (_, text, _, _) in enumerate(part))
    try:
        table = (
            session()
            .sql(f"SELECT {columns}, g FROM groups WHERE g IN ({groups}) GROUP BY g")
            .toArrow()
        )
    except Exception as error:
        if len(part) == 1:
            is_known = aggregate_cases.is_limited(part[0][0], str(error))
            return [] if is_known else [f"{part[0][0].shape}: fails: {str(error)[:200]}"]
        return [problem for item in part for problem in _compared_groups([item])]
    order = table.column("g").to_pylist()
    found = []
    for (case, _, own, _), column in zip(part, table.columns, strict=False):
        problem = aggregate_cases.difference(case, own, order, column.combine_chunks())
        found += [] if problem is None else [f"{case.shape}: {problem}"]
    return found
