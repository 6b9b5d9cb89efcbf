"""What makes the execution of a named job differ from a light job: snapshots, and an owner of what
its sinks stage."""

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
    """`owner` is the job's id, for ever; `snapshots` those of this execution; `tell` is given what
    is to be shown of it."""

    owner: str
    guarantee: Guarantee
    snapshots: SnapshotCoordinator
    expired_position: ExpiredPosition = ExpiredPosition.FAIL
    tell: Callable[[str], object] | None = None

    def context_of(self, context: JobContext) -> JobContext:
        """The context with what processors of a named job are told."""
        promises = self.guarantee is not Guarantee.NONE
        request = self.snapshots.request if promises else None
        return replace(
            context,
            owner=self.owner,
            guarantee=self.guarantee,
            request_snapshot=request,
            expired_position=self.expired_position,
            tell=self.tell,
        )
