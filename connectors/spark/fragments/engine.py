"""Spark as an engine of fragments and of whole jobs, for one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.catalog import Table
from runnel.connectors.spark.fragments.fragment import SparkFragment, fragment_of
from runnel.connectors.spark.fragments.inputs import can_take
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.table import SparkTable
from runnel.foreign.fragment import FragmentEngine
from runnel.relation.nodes import Relation, Scan

if TYPE_CHECKING:
    from runnel.connectors.spark.jobs.runtime import SparkJobs


class SparkEngine(FragmentEngine):
    """Spark for one connection."""

    name = "Spark"
    is_apart = True

    def __init__(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._jobs: SparkJobs | None = None

    @property
    def job_runtime(self) -> SparkJobs:
        if self._jobs is None:
            # Loaded on first use, since few connections have jobs on Spark.
            from runnel.connectors.spark.jobs.runtime import SparkJobs

            self._jobs = SparkJobs(self._owner)
        return self._jobs

    def can_read(self, table: Table) -> bool:
        return isinstance(table, SparkTable) and table.owner is self._owner

    def can_take(self, table: Table) -> bool:
        return can_take(table)

    def prefers(self, relation: Relation) -> bool:
        """Whether to run a sub-plan on Spark, which is better for its own rows: fewer of them have
        to move.

        Whole tables are scanned directly, without SQL.
        """
        return not (isinstance(relation, Scan) and relation.predicate is None)

    def fragment(self, relation: Relation) -> SparkFragment:
        return fragment_of(self._owner, relation)
