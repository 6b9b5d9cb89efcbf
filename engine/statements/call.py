"""One run of one statement: its text, its arguments, its time limit."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any

from runnel.errors import ErrorCode, OperationalError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.values import scalar_of

if TYPE_CHECKING:
    from runnel.database import Database
    from runnel.planner.plans import Plan


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` are Python values, each already of the type that the plan wants. `deadline` is a time of
    `time.monotonic`, or None."""

    sql: str
    arguments: tuple[Any, ...]
    deadline: float | None

    def evaluation(self, database: Database, plan: Plan) -> EvaluationContext:
        """What expressions may know of this run; its time is now."""
        arguments = [scalar_of(value, item) for value, item in zip(self.arguments, plan.parameters, strict=True)]
        return EvaluationContext(arguments, time_ns() // 1000, database.settings.time_zone)

    def remaining(self) -> float | None:
        """The seconds that are left; None where there is no limit. Never below 0."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())


def timed_out() -> OperationalError:
    """The error of a statement that took longer than it may."""
    return OperationalError("the statement timed out", code=ErrorCode.TIMEOUT, hint="give it a longer timeout")
