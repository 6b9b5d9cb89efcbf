"""A fragment on Spark: a sub-plan over the tables of one session becomes one query in Spark's
SQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from time import monotonic_ns
from typing import Any

from runnel.connector import SourcePartition
from runnel.connectors.spark.fragments.differences import warnings_of
from runnel.connectors.spark.fragments.filtered_rows import SparkRows, can_narrow
from runnel.connectors.spark.fragments.inputs import check_columns, rows_of
from runnel.connectors.spark.session.functions import python_calls, register
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.source import Views, partitions
from runnel.connectors.spark.table import SparkTable
from runnel.connectors.spark.types import quoted
from runnel.errors import Error
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Expression
from runnel.foreign.fragment import FragmentSource, NarrowableRows, Unrenderable, position_of
from runnel.processor import JobContext
from runnel.processors.constants import row_count
from runnel.relation.nodes import Filter, Limit, Project, Relation, Scan, Sort, transform, walk
from runnel.rendering.render import Rendering, RenderingContext
from runnel.rendering.spark.dialect import SPARK
from runnel.rendering.spark.relations import SparkRelations


def fragment_of(owner: SessionOwner, relation: Relation) -> SparkFragment:
    """The fragment for a sub-plan; raises Unrenderable."""
    for node in walk(relation):
        for expression in node.own_expressions:
            if is_volatile(expression):
                raise Unrenderable("a volatile function", expression.position)
    python_calls(relation)
    relation = transform(relation, _without_limit)
    return SparkFragment(
        owner, relation, SparkRelations(Rendering(SPARK), _preview).whole(relation)
    )


def _preview(node: Scan, read: tuple[int, ...]) -> str:
    """A table in the text that EXPLAIN shows, under its own name."""
    table = node.table
    if isinstance(table, SparkTable):
        table.check_readable(read)
    else:
        check_columns(node, read)
    columns = ", ".join(
        f"{quoted(table.columns[i].name)} AS c{position}" for position, i in enumerate(read)
    )
    return f"(SELECT {columns} FROM {quoted(table.name)})"


class SparkFragment(FragmentSource):
    """A sub-plan that Spark runs. Its partitions never block: other threads wait for Spark's
    jobs."""

    cooperative = True
    engine = "Spark"

    def __init__(self, owner: SessionOwner, relation: Relation, text: str) -> None:
        self._owner = owner
        self._relation = relation
        self.text = text
        self.reason = _moved(relation)
        self.differs = "; ".join(warnings_of(relation))
        self._limits = [node for node in walk(relation) if isinstance(node, Limit)]

    def frame(self, spark: Spark, evaluation: EvaluationContext) -> Any:
        """All rows, as a DataFrame of Runnel's session: c0, c1…."""
        context = JobContext(0, evaluation, monotonic_ns)
        return self._frame(spark, self._relation, self._rendering(evaluation), context)

    def _rendering(self, evaluation: EvaluationContext) -> Rendering:
        for node in self._limits:
            row_count(node.count, evaluation, "LIMIT")
            row_count(node.offset, evaluation, "OFFSET")
        return bound_rendering(evaluation)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        evaluation = context.evaluation
        rendering = self._rendering(evaluation)
        spark = self._owner.get()
        relation, is_ordered = self._relation, is_sorted(self._relation)
        limit = None
        if isinstance(relation, Limit) and relation.offset is None and not is_ordered:
            # Spark's own LIMIT would run every partition.
            limit, relation = row_count(relation.count, evaluation, "LIMIT"), relation.input
        frame = self._frame(spark, relation, rendering, context)
        if limit is not None:
            frame = spark.first_rows(frame, limit)
        return partitions(
            spark.fetch(frame, is_ordered, self.text),
            relation.fields,
            limit,
            partial(position_of, self._relation),
        )

    def can_narrow(self, keys: Sequence[Expression]) -> bool:
        if isinstance(self._relation, Limit):
            return False
        return can_narrow(keys, len(self._relation.fields))

    def prepare(self, context: JobContext) -> NarrowableRows:
        rendering = self._rendering(context.evaluation)
        spark = self._owner.get()
        rows = SparkRows(
            spark,
            self._frame(spark, self._relation, rendering, context),
            rendering,
            self._relation.fields,
        )
        rows.is_ordered, rows.description = is_sorted(self._relation), self.text
        rows.locate = partial(position_of, self._relation)
        return rows

    def _frame(
        self, spark: Spark, relation: Relation, rendering: Rendering, context: JobContext
    ) -> Any:
        """The query's DataFrame; it does not depend on the views that its text names."""
        register(spark, python_calls(relation))
        with ExitStack() as stack:
            views = stack.enter_context(Views(spark))

            def scan(node: Scan, read: tuple[int, ...]) -> str:
                if not isinstance(node.table, SparkTable):
                    columns = ", ".join(f"c{place}" for place in range(len(read)))
                    types = [node.table.columns[i].type for i in read]
                    return (
                        f"(SELECT {columns} FROM "
                        f"{views.moved(rows_of(node, read, context), types)})"
                    )
                columns = ", ".join(f"`c{i}` AS c{place}" for place, i in enumerate(read))
                return f"(SELECT {columns} FROM {views.name(node.table)})"

            try:
                return spark.frame(SparkRelations(rendering, scan).whole(relation))
            except Error as error:
                error.position = error.position or position_of(self._relation, error)
                raise


def bound_rendering(evaluation: EvaluationContext) -> Rendering:
    """A rendering in which arguments, time and zone are known."""
    arguments = tuple(value.as_py() for value in evaluation.arguments)
    return Rendering(
        SPARK, RenderingContext(arguments=arguments, zone=evaluation.zone, now=evaluation.now)
    )


def _moved(relation: Relation) -> str:
    """The rows of other connectors' tables that are sent to Spark, for EXPLAIN."""
    scans = [
        node
        for node in walk(relation)
        if isinstance(node, Scan) and not isinstance(node.table, SparkTable)
    ]
    rows = {scan.table.name: scan.table.row_count() for scan in scans}
    return ", ".join(
        f"{name} is the smaller side and moves: {count} rows" for name, count in rows.items()
    )


def _without_limit(node: Relation) -> Relation:
    """A scan without its limit, which is advice but which Spark would have to obey."""
    return replace(node, limit=None) if isinstance(node, Scan) and node.limit is not None else node


def is_sorted(relation: Relation) -> bool:
    """Whether the rows have an order that must be preserved."""
    if isinstance(relation, Sort):
        return True
    return isinstance(relation, Project | Filter | Limit) and is_sorted(relation.input)
