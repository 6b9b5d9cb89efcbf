"""CREATE, ALTER, DROP and SHOW JOB, and snapshots.

Imports `engine/named_jobs`, `engine/statements`, `engine/foreign`, `engine/snapshots`,
`engine/results`, `engine/processors`, `engine/relation`, `engine/expressions`,
`engine/session`, `engine/storage` and the contracts; `engine/runtime` for type checkers only; and
`plans`, `parse`, `physical`, `bind/tables`, `identity`, `lower` and `statement_time` of the
planner.

Begin with `jobs.create_job` and `alter_job`. `runtimes` chooses the engine that runs a job.
"""
