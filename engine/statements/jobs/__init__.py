"""CREATE, ALTER, DROP and SHOW JOB, snapshots, and their state as tables.

Imports `engine/named_jobs`, `engine/statements`, `engine/foreign`, `engine/snapshots`,
`engine/results`, `engine/processors`, `engine/relation`, `engine/expressions`,
`engine/connection.py` and the contracts; `connectors/arrow`; and `plans`, `physical` and
`lower` of the planner.

Begin with `jobs.create_job` and `alter_job`. `runtimes` chooses the engine that runs a job;
`modules` saves the Python modules that its functions need; `state_tables` reads JOB_STATE.
"""
