"""Materialized views: the content of a live query, in memory, for many readers.

The job of a view ends in a `ViewProcessor`, which publishes the changes of each epoch to the
`ViewStore` of the view. Statements read the store as a table (`MaterializedTable`); live queries
read its content and then its changes (`ViewChanges`). Begin with `store.py`.

It imports of `processors/live` the modules `arrangement`, `consolidation`, `group_slots` and
`slot_rows`, of the operators of bounded queries `stateful.buffered`, the contracts and the values.
The connector of views, the planner and the statements import it.
"""
