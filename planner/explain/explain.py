"""EXPLAIN: the plan of a statement as text, as a graph for Graphviz, or as JSON.

Text is an indented tree with a line per node, the root first; a DAG is a list of its vertices,
sources first, each with the edges that lead into it. A statement that needs no job is one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from runnel.base.schemas import VIEW_TYPE
from runnel.connector import KeyedTable
from runnel.dag import DAG, Edge, Routing
from runnel.errors import NotSupportedError
from runnel.planner.explain.nodes import Node, describe, describe_state
from runnel.planner.explain.parts import listed, plain
from runnel.planner.physical.nodes import Physical
from runnel.planner.plans import ClearPlan, KeyGetPlan, KeyPutPlan, Plan, QueryPlan, WritePlan
from runnel.relation.live import CHANGE_COLUMNS
from runnel.relation.nodes import Relation

STAGES = ("logical", "physical", "dag")
"""The stages of a plan; "all" asks for all of them."""


def explain(plan: Plan, stage: str, output: str, parallelism: int = 1) -> list[str]:
    """The lines that explain a plan. `stage` is one of STAGES, "state" or "all", `output` is
    "text", "dot" or "json"; the DAG is the one for `parallelism` worker threads. NotSupportedError
    for a plan that isn't a query or DML."""
    wanted = STAGES if stage == "all" else (stage,)
    parts = {name: _part(plan, name, parallelism) for name in wanted}
    return _FORMATS[output](parts)


def _part(plan: Plan, stage: str, parallelism: int) -> Node | DAG:
    rule = _PLANS.get(type(plan))
    if rule is None:
        raise NotSupportedError(
            "EXPLAIN is supported for queries and DML only",
            hint="use SHOW or SELECT to look at the catalog",
        )
    return rule(plan, stage, parallelism)


def _job(plan: QueryPlan | WritePlan, stage: str, parallelism: int) -> Node | DAG:
    if stage == "dag":
        return plan.dag(parallelism)
    if stage == "state":
        assert isinstance(plan.physical, Physical)
        return describe_state(plan.physical)
    chosen = plan.logical if stage == "logical" else plan.physical
    assert isinstance(chosen, Relation | Physical)
    root = describe(chosen)
    is_view = isinstance(plan, WritePlan) and plan.table.connector == VIEW_TYPE
    if is_view or chosen.fields[:2] == CHANGE_COLUMNS:
        # Loaded on first use: few queries have EMIT CHANGES.
        from runnel.planner.live.change_kinds import with_change_kinds

        root = with_change_kinds(chosen, root)
    if isinstance(plan, QueryPlan) and plan.stored is not None and stage == "physical":
        root = replace(root, title=f"{root.title}, without a job")
    if isinstance(plan, QueryPlan) and plan.notice:
        root = replace(root, properties={**root.properties, "notice": plan.notice})
    if plan.left_out and stage == "physical":
        return replace(root, properties={**root.properties, "own operators": plan.left_out})
    if isinstance(plan, WritePlan) and stage == "logical" and not is_view:
        columns = ", ".join(plan.table.columns[i].name for i in plan.columns)
        return Node(
            f"Write {plan.table.name}", {"mode": plan.mode.value, "columns": columns}, None, (root,)
        )
    return root


def _key_get(plan: KeyGetPlan, stage: str, parallelism: int) -> Node | DAG:
    if stage == "logical":
        return describe(plan.logical)
    names = [column.name for column in plan.table.columns]
    keys = zip(plan.table.key_columns, plan.key, strict=True)
    columns = (
        listed(plan.expressions)
        if plan.columns is None
        else ", ".join(names[i] for i in plan.columns)
    )
    properties = {
        "key": ", ".join(f"{names[i]} = {value}" for i, value in keys),
        "columns": columns,
    }
    return Node(f"Get from {plan.table.name} by key, without a job", properties, None, ())


def _key_put(plan: KeyPutPlan, stage: str, parallelism: int) -> Node | DAG:
    names = [column.name for column in plan.table.columns]
    way = " by key" if isinstance(plan.table, KeyedTable) else ""
    title = f"{plan.mode.value.capitalize()} {plan.table.name}{way}, without a job"
    if plan.mode.value in ("insert", "sink"):
        rows = len(plan.rows)
        properties = {"rows": str(rows), "columns": ", ".join(names[i] for i in plan.columns)}
    else:
        assert isinstance(plan.table, KeyedTable)
        keys = zip(plan.table.key_columns, plan.rows[0], strict=True)
        properties = {"key": ", ".join(f"{names[i]} = {value}" for i, value in keys)}
    if plan.assignments:
        properties["set"] = ", ".join(
            f"{names[i]} = {plain(value)}" for i, value in plan.assignments
        )
    return Node(title, properties, None, ())


def _clear(plan: ClearPlan, stage: str, parallelism: int) -> Node | DAG:
    return Node(f"Clear {plan.table.name}, without a job", {}, None, ())


_PLANS: dict[type[Plan], Callable[[Any, str, int], Node | DAG]] = {
    QueryPlan: _job,
    WritePlan: _job,
    KeyGetPlan: _key_get,
    KeyPutPlan: _key_put,
    ClearPlan: _clear,
}


def _text(parts: dict[str, Node | DAG]) -> list[str]:
    lines: list[str] = []
    for stage, part in parts.items():
        if len(parts) > 1:
            lines += ["", _HEADINGS[stage]] if lines else [_HEADINGS[stage]]
        lines += dag_text(part) if isinstance(part, DAG) else tree_text(part)
    return lines


_HEADINGS = {
    "logical": "Logical plan",
    "physical": "Physical plan",
    "dag": "DAG (on one member: this process)",
    "state": "State",
}


def tree_text(node: Node, depth: int = 0) -> list[str]:
    """The tree, two spaces deeper with each level."""
    parts = [f"{name}: {text}" for name, text in node.properties.items()]
    rows = "" if node.rows is None else f"  [~{node.rows} row{'' if node.rows == 1 else 's'}]"
    line = "  " * depth + node.title + (" (" + "; ".join(parts) + ")" if parts else "") + rows
    return [line] + [text for item in node.inputs for text in tree_text(item, depth + 1)]


def dag_text(dag: DAG) -> list[str]:
    """A line per vertex, and below it one per edge that comes in."""
    lines = []
    for vertex in dag.validate():
        inputs = dag.inputs(vertex.name)
        lines.append(f"{vertex.name}, {_parallelism(vertex.parallelism)}")
        differ = len({edge.priority for edge in inputs}) > 1
        lines += [f"  <- {edge.source}: {_edge(edge, differ)}" for edge in inputs]
    return lines


def _parallelism(parallelism: int | None) -> str:
    if parallelism is None:
        return "as many processors as there are partitions"
    return f"{parallelism} processor" if parallelism == 1 else f"{parallelism} processors"


def _edge(edge: Edge, with_priority: bool) -> str:
    routing = edge.routing.value
    if edge.routing is Routing.PARTITIONED:
        routing += f" by {', '.join(edge.keys)}"
    return routing + (f", priority {edge.priority}" if with_priority else "")


def _dot(parts: dict[str, Node | DAG]) -> list[str]:
    lines = ["digraph plan {", "  rankdir=BT;", "  node [shape=box];"]
    for stage, part in parts.items():
        body = _dag_dot(part) if isinstance(part, DAG) else _tree_dot(part, stage)
        if len(parts) == 1:
            lines += body
        else:
            lines += [f"  subgraph cluster_{stage} {{", f"    label={_quoted(_HEADINGS[stage])};"]
            lines += ["  " + line for line in body] + ["  }"]
    return [*lines, "}"]


def _tree_dot(root: Node, stage: str) -> list[str]:
    lines: list[str] = []

    def add(node: Node) -> str:
        name = f"{stage}_{len(lines)}"
        label = "\n".join(
            [node.title, *(f"{key}: {text}" for key, text in node.properties.items())]
        )
        lines.append(f"  {name} [label={_quoted(label)}];")
        for item in node.inputs:
            below = add(item)
            lines.append(f"  {below} -> {name};")
        return name

    add(root)
    return lines


def _dag_dot(dag: DAG) -> list[str]:
    lines = []
    for vertex in dag.validate():
        count = "" if vertex.parallelism is None else f" x {vertex.parallelism}"
        lines.append(f"  {_quoted(vertex.name)} [label={_quoted(vertex.name + count)}];")
    for edge in dag.edges:
        label = _edge(edge, edge.priority > 0)
        lines.append(
            f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={_quoted(label)}];"
        )
    return lines


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _json(parts: dict[str, Node | DAG]) -> list[str]:
    values = {
        stage: _dag_json(part) if isinstance(part, DAG) else _tree_json(part)
        for stage, part in parts.items()
    }
    value = values if len(values) > 1 else next(iter(values.values()))
    return json.dumps(value, indent=2, ensure_ascii=False).split("\n")


def _tree_json(node: Node) -> dict[str, Any]:
    value: dict[str, Any] = {"node": node.title, **node.properties}
    if node.rows is not None:
        value["rows"] = node.rows
    if node.inputs:
        value["inputs"] = [_tree_json(item) for item in node.inputs]
    return value


def _dag_json(dag: DAG) -> dict[str, Any]:
    return {
        "vertices": [
            {"name": item.name, "parallelism": item.parallelism} for item in dag.validate()
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "ordinal": edge.target_ordinal,
                "routing": edge.routing.value,
                "keys": list(edge.keys),
                "priority": edge.priority,
                "queue": edge.queue_size,
            }
            for edge in dag.edges
        ],
    }


_FORMATS: dict[str, Callable[[dict[str, Node | DAG]], list[str]]] = {
    "text": _text,
    "dot": _dot,
    "json": _json,
}
