"""Plans of the statements that create or change a named job."""

from __future__ import annotations

import re

from runnel.planner.parse import syntax
from runnel.planner.plans import AlterJobPlan, CreateJobPlan, Plan, WritePlan


def written_job(statement: syntax.CreateJob | syntax.AlterJob, write: WritePlan | None) -> Plan:
    """The plan of CREATE JOB or ALTER JOB, with the plan of the job's query, if there is one."""
    options = syntax.option_values(statement.options)
    parameters = () if write is None else write.parameters
    if isinstance(statement, syntax.AlterJob):
        return AlterJobPlan(
            name=statement.name.text,
            position=statement.name.position,
            action=statement.action,
            options=options,
            write=write,
            text=statement.text,
            parameters=parameters,
        )
    assert write is not None
    return CreateJobPlan(
        name=statement.name.text,
        position=statement.name.position,
        options=options,
        write=write,
        text=statement.text,
        if_not_exists=statement.if_not_exists,
        parameters=parameters,
    )


def submitted_job(statement: syntax.Insert, write: WritePlan) -> CreateJobPlan:
    """The plan of an INSERT of Flink over a stream, which starts a job. Its name is made up from
    the name of the table, and a number."""
    return CreateJobPlan(
        name=re.sub(r"\W+", "_", f"insert_into_{statement.table.text}").lower(),
        position=statement.table.position,
        options=(),
        write=write,
        text=statement.sql.strip(),
        if_not_exists=False,
        is_submitted=True,
        parameters=write.parameters,
    )
