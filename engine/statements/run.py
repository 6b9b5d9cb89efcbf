"""Carrying out plans: one handler per plan class.

Every process runs queries; the handlers of all other plans are loaded by the first of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runnel.deadline import current
from runnel.errors import ProgrammingError, internal
from runnel.planner import plans
from runnel.statements import queries
from runnel.statements.arguments import Rows, converted
from runnel.statements.call import Call
from runnel.statements.outcome import Outcome

if TYPE_CHECKING:
    from runnel.database import Database
    from runnel.sqltypes import SqlType

_HANDLERS: dict[type[plans.Plan], Callable[[Database, Any, Call], Outcome]] = {
    plans.QueryPlan: queries.run_query,
    plans.KeyGetPlan: queries.run_key_get,
    plans.ExplainPlan: queries.run_explain,
}
"""Those loaded so far."""


def run(database: Database, plan: plans.Plan, call: Call) -> Outcome:
    """Carries out one plan."""
    handler = _HANDLERS.get(type(plan))
    if handler is None:
        _load_handlers()
        handler = _HANDLERS.get(type(plan))
        if handler is None:
            raise internal(f"no handler for a {type(plan).__name__}")
    return handler(database, plan, call)


def _load_handlers() -> None:
    from runnel.statements import data_connections, definitions, show, writes

    def lazily(name: str) -> Callable[[Database, Any, Call], Outcome]:
        def handle(database: Database, plan: Any, call: Call) -> Outcome:
            # Loaded on first use: most connections have no named jobs.
            if name == "verify_job":
                from runnel.statements.verify.verify import verify_job

                return verify_job(database, plan, call)
            from runnel.statements.jobs import jobs

            outcome: Outcome = getattr(jobs, name)(database, plan, call)
            return outcome

        return handle

    _HANDLERS.update(
        {
            plans.WritePlan: writes.run_write,
            plans.KeyPutPlan: writes.run_key_put,
            plans.ClearPlan: writes.run_clear,
            plans.CreateMappingPlan: definitions.create_mapping,
            plans.CreateDataConnectionPlan: data_connections.create_data_connection,
            plans.CreateViewPlan: definitions.create_view,
            plans.CreateIndexPlan: definitions.create_index,
            plans.DropPlan: definitions.drop,
            plans.ShowPlan: show.run_show,
            plans.SetPlan: show.run_set,
            plans.CreateJobPlan: lazily("create_job"),
            plans.AlterJobPlan: lazily("alter_job"),
            plans.DropJobPlan: lazily("drop_job"),
            plans.VerifyJobPlan: lazily("verify_job"),
            plans.CreateSnapshotPlan: lazily("create_snapshot"),
            plans.DropSnapshotPlan: lazily("drop_snapshot"),
        }
    )


def run_many(
    database: Database, plan: plans.Plan, call: Call, types: tuple[SqlType, ...], rows: Rows
) -> int:
    """Carries out one plan for many argument lists, of which `call` has none yet; gives the number
    of rows written in all, −1 where there is none."""
    if isinstance(
        plan,
        plans.QueryPlan
        | plans.KeyGetPlan
        | plans.ExplainPlan
        | plans.ShowPlan
        | plans.VerifyJobPlan,
    ):
        raise ProgrammingError(
            "executemany is not for statements that give rows", hint="use execute"
        )
    from runnel.statements.batches import run_batch, templates

    zone = database.settings.time_zone
    if templates(plan):
        assert isinstance(plan, plans.KeyPutPlan | plans.WritePlan)
        context = replace(call, arguments=(None,) * len(types)).evaluation(database, plan)
        return run_batch(database, plan, types, rows, context)
    total = -1
    patience = current()
    for args in rows:
        patience.check()
        patience.check_time()
        count = run(
            database, plan, replace(call, arguments=converted(args, types, plan.parameters, zone))
        )
        assert isinstance(count, int)
        if count >= 0:
            total = max(total, 0) + count
    return total
