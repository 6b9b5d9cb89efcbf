"""TO_CHAR, TO_DATE, TO_TIMESTAMP and TO_NUMBER, with PostgreSQL's patterns.

Imports the engine's basics, `columns`, the files of `engine/expressions`, its `kernels`, and
one file of `casts`.

Begin with `functions`, then `patterns`, which splits a pattern into its elements.
`format_numbers` and `format_time` write; `parse_time` reads all rows with one regular
expression.
"""
