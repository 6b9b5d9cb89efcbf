"""The planner: SQL text in, an immutable plan out.

It reads a snapshot of the catalog, never data, jobs or the runtime. Of the engine it imports
the basics, the contracts (`catalog`, `connector`, `dag`, `processor`), `columns`,
`expressions`, `relation`, `foreign` and `processors`. Every folder of it may import
`operators/passes.py`, where a pass finds the rules of a node, and `environment.py`.

Begin with `planner.plan`, which calls the stages in order: `parse`, `bind`, then `optimize`
with `rules`, `pushdown` and `physical`, and last `lower`. `plans` has one class per kind of
statement.
"""

if __name__ != "runnel.planner":
    raise ImportError(
        'this package is imported as "runnel.planner": install Runnel, '
        'then write "import runnel.planner"'
    )
