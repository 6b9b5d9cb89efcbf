"""Statement handlers: one per plan class, grouped by family.

Imports `planner/plans.py`, `planner/explain`, `connectors/registry.py`; of the engine
`runtime`, `results`, `session`, `settings`, `storage`, `relation`, `expressions` and the
contracts; and its folders `jobs` and `verify`. A handler receives a `Session` of `engine/session`,
and uses its attributes, never `Session.database`.

Begin with `run`: the executor of a session, and the table from plan class to handler; then
`queries` and `writes`. `call` is one run of a statement (text, arguments, time limit).
"""
