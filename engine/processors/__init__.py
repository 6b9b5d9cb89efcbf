"""Operators. Each has a module, and a function that returns its supplier; modules next to it hold
what several operators share.

A supplier is part of an immutable plan that many executions share. It does the work that can be
done once (compiling expressions, building schemas); a processor has the state of one execution.

Conventions that the operators and the planner share:

- Batches without columns keep their number of rows (see `runnel.columns.batches`): a count
  needs no columns at all.
- Column names within a DAG matter only where an edge is partitioned by them; operators refer to
  columns by index.
- Batches are cut to `MAX_ROWS` rows, and no operator delays rows to fill one.

With its folders, it imports the contracts (`processor`, `dag`, `connector`), `columns`,
`expressions`, `relation`, `storage`, and for one operator `duckdb`, `foreign` and `rendering`;
never `runtime`. Begin with `calc`, filter and projection in one step, then `stateful.buffered`,
which most operators extend.
"""
