"""What each kind of plan does when it runs: one handler per plan class, grouped by family.

A handler takes the database, the plan and the call, and gives a `Result` (rows) or an int (the number of rows written; −1
for a statement that has no such number).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runnel.errors import internal
from runnel.planner import plans
from runnel.rows import Result
from runnel.statements import definitions, queries, show, writes
from runnel.statements.call import Call

if TYPE_CHECKING:
    from runnel.database import Database

Outcome = Result | int

_HANDLERS: dict[type[plans.Plan], Callable[[Database, Any, Call], Outcome]] = {
    plans.QueryPlan: queries.run_query,
    plans.KeyGetPlan: queries.run_key_get,
    plans.ExplainPlan: queries.run_explain,
    plans.WritePlan: writes.run_write,
    plans.KeyPutPlan: writes.run_key_put,
    plans.ClearPlan: writes.run_clear,
    plans.CreateMappingPlan: definitions.create_mapping,
    plans.CreateViewPlan: definitions.create_view,
    plans.CreateIndexPlan: definitions.create_index,
    plans.DropPlan: definitions.drop,
    plans.ShowPlan: show.run_show,
    plans.SetPlan: show.run_set,
}


def run(database: Database, plan: plans.Plan, call: Call) -> Outcome:
    """Carries out one plan."""
    handler = _HANDLERS.get(type(plan))
    if handler is None:
        raise internal(f"no handler for a {type(plan).__name__}")
    return handler(database, plan, call)
