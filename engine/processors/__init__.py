"""Operators: one per file, each with a function that gives the supplier of its processors.

A supplier is part of an immutable plan that many executions use at once. So everything that can be done once
(compiling expressions, building schemas) is done in the supplier; a processor holds what belongs to one execution only.

Conventions that the operators and the planner share:

- Batches without columns keep their number of rows (see `runnel.columns.batches`): a count needs no columns at all.
- Column names within a DAG only matter where an edge is partitioned by them; operators refer to columns by index.
- Batches are cut to `runnel.columns.batches.MAX_ROWS` rows, and no operator holds rows back to fill one.
"""
