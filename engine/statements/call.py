"""One run of one statement: its text, its arguments, its time limit."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, ProgrammingError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.planner.plans import QueryPlan
from runnel.relation.streams import event_time_type
from runnel.runtime.light_job import Job, JobOptions

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.dag import DAG
    from runnel.database import Database
    from runnel.deadline import Patience
    from runnel.planner.plans import Plan


OnStart: TypeAlias = "Callable[[Job | Patience], object]"


@frozen
class Caller:
    """On whose behalf a statement runs.

    is_owner: whether it may change settings, and what others have defined.
    access: its bounds; None where it has none.
    """

    is_owner: bool = True
    access: Access | None = None

    @property
    def is_confined(self) -> bool:
        return self.access is not None

    def require_owner(self, what: str, hint: str | None = None) -> None:
        """ProgrammingError where it isn't the owner: `what` (a plural) is the owner's."""
        if not self.is_owner:
            raise ProgrammingError(
                f"{what} are the owner's",
                code=ErrorCode.NOT_ALLOWED,
                hint=hint or "connect with the owner's token",
            )

    def require_no_bounds(self, what: str) -> None:
        """ProgrammingError where it has bounds: `what` (a plural) can't be kept within any."""
        if self.is_confined:
            raise ProgrammingError(
                f"{what} are for callers without bounds",
                code=ErrorCode.NOT_ALLOWED,
                hint=(
                    "the owner does it: with the owner's token, "
                    "or on a connection without allowed_paths"
                ),
            )

    def require_own(self, what: str, *, is_confined: bool) -> None:
        """ProgrammingError where `what` was made by a caller without bounds, and this one isn't the
        owner."""
        if not self.is_owner and not is_confined:
            raise ProgrammingError(
                f"{what} is the owner's",
                code=ErrorCode.NOT_ALLOWED,
                hint="you may read and write it; the owner may change it",
            )


OWNER = Caller()


@frozen
class Call:
    """`arguments` are Python values, each already of the type that the plan wants. `deadline` is a
    time of `time.monotonic_ns`, or None; `timeout` is what the user gave for it, in seconds.
    `on_start` is given each job that is started, and each wait for others, so that it can be
    cancelled. `caller`: on whose behalf it runs."""

    sql: str
    arguments: tuple[Any, ...]
    deadline: int | None
    on_start: OnStart
    timeout: float | None = None
    caller: Caller = OWNER

    def evaluation(self, database: Database, plan: Plan) -> EvaluationContext:
        """What expressions may know of this run; its time is now."""
        arguments = [
            scalar_of(value, item)
            for value, item in zip(self.arguments, plan.parameters, strict=True)
        ]
        return EvaluationContext(arguments, time_ns() // 1000, database.settings.time_zone)

    def start(
        self,
        database: Database,
        plan: Plan,
        dag: DAG,
        *,
        is_unbounded: bool = False,
        is_measured: bool = False,
        evaluation: EvaluationContext | None = None,
    ) -> Job:
        """Starts the light job of a plan; `evaluation` is where it isn't that of this run."""
        limit = database.settings.integer("max_processor_accumulated_records")
        timeout = None if self.deadline is None else max(0, self.deadline - monotonic_ns())
        stated = None if self.timeout is None else round(min(self.timeout, 1e9) * 1e9)
        event_time = (
            event_time_type(plan.logical) if is_unbounded and isinstance(plan, QueryPlan) else None
        )
        options = JobOptions(
            timeout=timeout,
            accumulation_limit=limit,
            stated_timeout=stated,
            is_measured=is_measured,
            event_time=event_time,
            # Half of it for waiting; the other half is for the work, and for windows to be told of
            # their end.
            linger=database.settings.latency_target // 2 if is_unbounded else 0,
            is_confined=self.caller.is_confined,
        )
        return database.jobs.start(
            dag,
            evaluation=evaluation or self.evaluation(database, plan),
            query=self.sql,
            is_unbounded=is_unbounded,
            options=options,
            on_start=self.on_start,
        )
