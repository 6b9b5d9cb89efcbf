"""Named jobs: created by CREATE JOB, resumed after failures and process restarts.

Imports its folders, `engine/runtime`, `engine/snapshots`, `engine/foreign`, `engine/processors`
(sources and sinks), `engine/storage`, `engine/expressions` and the contracts; no planner.

Begin with `named_job` (the handle, and the objects of which a job is made), `lifecycle` (the steps
between executions) and `run` (one execution and its snapshots).
`registry` has all jobs of a connection, `foreign_run` executions on another engine,
`named_snapshots` the snapshots that users named. docs/design/013-jobs.md has the design.
"""
