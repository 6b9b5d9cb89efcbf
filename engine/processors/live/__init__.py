"""Operators of live queries: they maintain a result while their inputs grow, and emit its changes.

`arrangement` stores rows by key; `group_slots`, `row_log` and `slot_rows` store one row per group.
`live_processor` is the processor of all operators that maintain a result: groups by their states
(`accumulated_groups`), or anything by computing the touched partitions again
(`recomputed_partitions`). `joined_rows` and `unmatched_rows` maintain joins. `aggregate` and
`partitions` supply the processors of other operators. `change_stream` is the last operator of a
query.

It imports the contracts and the values, and of the operators of bounded queries
`grouping.aggregate`, `grouping.aggregation`, `grouping.group_state`, `grouping.row_identity`,
`joins.index`, `recursion` and `stateful.buffered`. Begin with `change_stream`, then `aggregate`.
"""
