"""GROUP BY, DISTINCT, INTERSECT and EXCEPT: rows with equal keys combined.

Imports the contracts `processor` and `dag`, `columns`, `expressions` with its aggregates,
`storage`, and of `processors` single files of `joins`, `sorting` and `stateful`.

Begin with `aggregate`, the operator, then `aggregation` (its compiled form) and `group_state`
(buffer, collapse, combine, spill). `grouping` forms groups with Acero; `integer_groups` and
`numpy_groups` are the fast paths for dense integer keys and few rows.
"""
