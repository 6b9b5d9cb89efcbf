"""The runtime: how, by which thread and when the processors of a DAG are called.

Imports its folders `edges`, `tasklets` and `threads`, `engine/snapshots`, the contracts
`processor` and `dag`, `expressions`, `processors`, `storage`, for the simulation `testing`, and
for type checkers only `duckdb` and `named_jobs`.

Begin with `template` (prepared once per DAG) and `execution` (processors, tasklets and queues
of one run). `light_job` starts and joins a job without a name; `snapshots` runs the barriers.
`simulation` runs on one thread, in an order drawn from a seed. docs/design/001-runtime.md
explains the whole design.
"""
