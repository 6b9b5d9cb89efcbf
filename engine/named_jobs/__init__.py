"""Named jobs: what CREATE JOB makes. They outlive failures and, in a durable connection, the process.

`states` has the states and what is allowed in which, `options` what OPTIONS says, `record` and `records` what is kept,
`named_job` one job's life, `registry` all jobs of a connection, `named_snapshots` the snapshots that users named.
"""
