"""What each vertex of a plan is for, as a text: two vertices of one name and one meaning may have each other's state."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.dag import Supplier, Vertex
from runnel.planner import physical, physical_streams
from runnel.planner.describe import describe
from runnel.planner.describe_state import keeps
from runnel.planner.lower import RULES
from runnel.planner.lowering import Lowering, Output
from runnel.planner.physical import Physical

_PASSING = ("late rows",)
"""Properties of a node that its state doesn't depend on."""


def vertex_meanings(plan: Physical, parallelism: int) -> dict[str, str]:
    """The meanings of the vertices of a plan, by name."""
    recording = _Recording(parallelism, RULES)
    recording.lower(plan)
    return recording.meanings


def keeping_vertices(plan: Physical, parallelism: int) -> frozenset[str]:
    """The vertices of a plan that keep something of their input."""
    recording = _Recording(parallelism, RULES)
    recording.lower(plan)
    return frozenset(recording.keeping)


class _Recording(Lowering):
    """Notes the node that each vertex is made for."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.meanings: dict[str, str] = {}
        self.keeping: set[str] = set()
        self._nodes: list[Physical] = []

    def lower(self, node: Physical) -> Output:
        self._nodes.append(node)
        try:
            return super().lower(node)
        finally:
            self._nodes.pop()

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None) -> Vertex:
        made = super().vertex(name, supplier, parallelism)
        node = self._nodes[-1]
        self.meanings[made.name] = _meaning(node)
        if keeps(node) or isinstance(node, physical.SourceScan):
            self.keeping.add(made.name)
        return made


def _meaning(node: Physical) -> str:
    """Of a scan only its table counts, and of a sink: their state are places in these. For others the windows below count, too,
    whose bounds are columns like others to them."""
    if isinstance(node, physical.SourceScan):
        return f"read {node.table.name} of connector {node.table.connector}"
    if isinstance(node, physical.Write):
        return f"write {node.table.name} of connector {node.table.connector}"
    types = ", ".join(str(field.type) for field in node.fields)
    over = "".join(f" over {_text(item)}" for item in _below(node) if isinstance(item, physical_streams.AssignWindows))
    return f"{_text(node)} of {types}{over}"


def _text(node: Physical) -> str:
    shown = describe(node)
    properties = [f"{name}: {text}" for name, text in shown.properties.items() if name not in _PASSING]
    return f"{shown.title} ({'; '.join(properties)})"


def _below(node: Physical) -> Iterator[Physical]:
    for item in node.inputs:
        yield item
        yield from _below(item)
