"""Event time in plans: bounded columns, and the limits of queries over streams.

Imports `planner/rewriting.py`, `planner/estimates.py`, `engine/relation`, `engine/expressions`, the
contracts, `engine/foreign`; `planner/physical` and one join processor only where a join is chosen
(`joins`).

Begin with `bounds`: which columns a watermark bounds. `check` refuses queries that would need
unbounded state and names the remedy; `join_bounds` derives how long rows must wait for a join;
`over_streams` and `refusals` do the same for OVER.
"""
