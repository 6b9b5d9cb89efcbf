"""Statement handlers: one per class of plans or commands, grouped by family.

Imports `plans`, `mapping_steps`, `parse`, `explain` and the table of macros
(`planner/bind/scalars/macro_table.py`) and the columns of DESCRIBE (`bind/tables/described.py`) of
the planner, `connectors/registry.py`;
of the engine `runtime`, `processors/library`, `processors/sinks`, `results`, `session`, `settings`,
`storage`, `relation`, `expressions` and the contracts; and its folders `jobs` and `verify`. A
handler receives a `Session` of `engine/session`, and uses its attributes, never
`Session.database`.

Begin with `run`: the executor of a session, and the table of handlers; then `queries` and
`writes`. `call` is one run of a statement (text, arguments, time limit).
"""
