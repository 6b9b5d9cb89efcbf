"""The planner's side of VERIFY JOB: bounded replay, sampling and comparison.

Imports `planner/bind`, `event_time`, `lower`, `parse`, `physical`, `rules` and `plans.py` of
the planner, `engine/relation`, `engine/expressions` and the contracts.

Begin with `replay`: the query of a job over streams as a bounded query. `comparison` builds the
query that compares expected and actual rows; `final_rows` limits it to final results; `sample`
to a sample by key.
"""
