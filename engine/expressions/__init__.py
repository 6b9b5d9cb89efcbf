"""Typed scalar expressions: nodes, binding, and compilation to Arrow kernels.

Imports the engine's basics and `columns`, and nothing above. Its subfolders, one per family of
functions, import its files; `functions`, `build` and `evaluate` import the families in turn.

Begin with `nodes` (the expression tree), then `evaluate.compile_expression` and `function` (how
a function is bound and compiled). `functions` is the registry; `lazy_families` finds the
families that are loaded on first use. docs/design/003-expressions.md explains the design.
"""
