"""The options of jobs whose result changes."""

from __future__ import annotations

from dataclasses import replace

from runnel.connector import WriteMode
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.record.options import NamedJobOptions, read_options
from runnel.planner.plans import CreateJobPlan


def job_options(plan: CreateJobPlan) -> NamedJobOptions:
    """The options of a new job. No other engine maintains a result that changes."""
    options = read_options(plan.options)
    if plan.write.mode is WriteMode.CHANGES:
        return replace(options, runtime=TASKLETS)
    return options
