"""Statements about materialized views: CREATE, ALTER, DROP and SHOW, and reads of own writes.

Each view has a named job of its name, which publishes its rows. Begin with `definitions.py`.

It imports `session`, `foreign`, `planner/plans.py`, `planner/parse`, `connectors/views`,
`named_jobs`, `runtime`, `results`, of the operators `processors/live/views` and
`processors/sources/scan.py`, and of the statements `call`, `definitions`, `jobs` and `tables`.
"""
