"""The difference between the execution of a named job and a light job: snapshots, and an owner of
the rows that its sinks stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.processor import ExpiredPosition, Guarantee, JobContext

if TYPE_CHECKING:
    from runnel.runtime.snapshots import SnapshotCoordinator


@frozen
class Durability:
    """The snapshots and the owner of one execution of a named job.

    owner: id of the job, the same in all its executions.
    guarantee: processing guarantee of the job.
    snapshots: coordinator of the snapshots of this execution.
    expired_position: what a source does when its position has expired.
    report: receives messages for the job's owner; may be called from any thread.
    """

    owner: str
    guarantee: Guarantee
    snapshots: SnapshotCoordinator
    expired_position: ExpiredPosition = ExpiredPosition.FAIL
    report: Callable[[str], object] | None = None

    def context_of(self, context: JobContext) -> JobContext:
        """The context, extended by the values for a named job."""
        takes_snapshots = self.guarantee is not Guarantee.NONE
        request = self.snapshots.request if takes_snapshots else None
        return replace(
            context,
            owner=self.owner,
            guarantee=self.guarantee,
            request_snapshot=request,
            expired_position=self.expired_position,
            tell=self.report,
        )
