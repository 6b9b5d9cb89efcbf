"""Tables whose rows change: from the events of a log to the changes of the current rows.

`change_events` reads events; `keyed_rows` has the rows of tables with a key, `counted_rows` the
rows of tables without one. `repeated_reads` makes a log of a table that is read again.
`current_rows` supplies the processors: begin there.

It imports the contracts and the values, and of the operators `processors.live` and
`grouping.row_identity`.
"""
