"""The durable record of a named job: options, states, arguments, progress.

Imports the engine's basics, `connector`, `processor`, `foreign`, `snapshots`, `storage` and
`light_job` of `engine/runtime`; for type checkers only `home` and `job_locks` of
`engine/named_jobs`.

Begin with `record.JobRecord` and its JSON form. `states` has the states of a job and the
actions allowed in each; `options` parses OPTIONS; `current` is the
record of one job as it changes; `store` writes records to a durable directory.
"""
