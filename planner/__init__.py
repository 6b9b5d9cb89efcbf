"""The planner: SQL text in, an immutable plan out. It sees the catalog's snapshot, never data, jobs or the runtime."""

if __name__ != "runnel.planner":
    raise ImportError('this package is imported as "runnel.planner": install Runnel, then write "import runnel.planner"')
