"""The homes of the operators: for each family of nodes one module that registers what every pass
of the planner does with them.

`passes` is the list of the passes, each with its contract and its default; a pass itself (such
as `planner/rules/column_pruning.py`) has the recursion and the functions that homes share.
`appending` and `row_by_row` register the rules of many passes at once; `streams` has the homes of
operators that only streams have.

A home imports the other folders of the planner except `bind`, `parse` and the entry points;
`planner/estimates.py` and `planner/rewriting.py`; and of the engine what its rules refer to: nodes
(`relation`, `foreign`), `processors`, and the contracts. `passes` imports no pass, and no pass
imports a home: homes are imported here, by name, when a pass first meets a node of their family.

Begin with `passes`, then `unnest`: a home with two relational nodes and two physical nodes.
"""

from __future__ import annotations

from importlib import import_module

from runnel.planner.operators.passes import load_homes_by


def _load(family: str) -> None:
    import_module(f"runnel.planner.operators.{family}")


# `passes` doesn't import this module: the pass modules would then import homes, and homes them.
load_homes_by(_load)
