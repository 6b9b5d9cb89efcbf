"""Contracts for other engines: fragments of a query, and whole jobs.

Imports the engine's basics, `catalog`, `connector`, `processor`, `expressions` and `relation`;
no engine's implementation. One file of `processors` is named for type checkers only. DuckDB and
Spark implement these contracts in `connectors`.

Begin with `fragment.FragmentEngine`: it is offered a relation and returns a source of rows
(docs/design/005-fragments.md). `job_runtime.JobRuntime` runs a named job from source to sink.
"""
