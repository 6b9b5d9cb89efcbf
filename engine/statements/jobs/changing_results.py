"""Jobs whose result changes: their state is in no snapshot yet, so they run without a guarantee."""

from __future__ import annotations

from dataclasses import replace

from runnel.connector import WriteMode
from runnel.errors import NotSupportedError, Position
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.record.options import NamedJobOptions, read_options
from runnel.planner.plans import CreateJobPlan, WritePlan
from runnel.processor import Guarantee


def job_options(plan: CreateJobPlan) -> NamedJobOptions:
    """The options of a new job. A job whose result changes takes no snapshots; NotSupportedError if
    its options ask for a guarantee."""
    options = read_options(plan.options)
    if plan.write.mode is not WriteMode.CHANGES:
        return options
    given = {name.lower(): position for name, _, position in plan.options}
    if "processingguarantee" in given:
        check_guarantee(plan.write, options, given["processingguarantee"])
    if options.initial_snapshot is not None:
        raise NotSupportedError(
            "a job whose result changes can't begin with a snapshot",
            detail="snapshots do not have the state of such a result yet",
            hint="leave the snapshot out (RESET 'execution.savepoint.path'), or aggregate by a "
            "window",
            position=given.get("initialsnapshotname"),
        )
    return replace(options, guarantee=Guarantee.NONE, runtime=TASKLETS)


def check_guarantee(
    write: WritePlan, options: NamedJobOptions, position: Position | None = None
) -> None:
    """NotSupportedError if a job has a guarantee, and its result changes."""
    if write.mode is WriteMode.CHANGES and options.guarantee is not Guarantee.NONE:
        raise NotSupportedError(
            f"a job whose result changes can't have the guarantee {options.guarantee} yet",
            detail="snapshots do not have its state: after a failure it begins again",
            hint="create it with 'processingGuarantee' = 'none', or aggregate by a window, whose "
            "result is final",
            position=position,
        )
