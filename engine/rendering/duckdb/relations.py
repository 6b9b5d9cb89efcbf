"""A relational subplan as DuckDB's SELECT: a node that occurs twice is computed once, and WITH
RECURSIVE is rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from runnel.foreign.fragment import Unrenderable
from runnel.relation import nodes
from runnel.relation.nodes import JoinKind, Relation, Scan
from runnel.relation.subqueries import Recursion, WorkingTable
from runnel.relation.unnest import Unnest
from runnel.rendering.plan_shapes import repeated
from runnel.rendering.relations import Block, RelationRendering, ScanText, block_text
from runnel.rendering.render import Rendering


class DuckDBRelations(RelationRendering):
    """DuckDB's SELECT of one relation."""

    rules: ClassVar[Mapping[type[Relation], str]] = {
        **RelationRendering.rules,
        Unnest: "unnest",
        Recursion: "recursion",
        WorkingTable: "working_table",
    }

    def __init__(self, rendering: Rendering, scan: ScanText) -> None:
        super().__init__(rendering, scan)
        self._recursions: dict[str, str] = {}
        self._shared: dict[Relation, str] = {}
        self._with: list[str] = []
        self._in_step = False

    def whole(self, relation: Relation) -> str:
        self._shared = dict.fromkeys(repeated(relation), "")
        text = self.select(relation)
        return f"WITH {', '.join(self._with)} {text}" if self._with else text

    def block(self, relation: Relation) -> Block:
        if self._shared and relation.is_computed_once and relation in self._shared:
            return self._once(relation)
        return super().block(relation)

    def _once(self, relation: Relation) -> Block:
        """The relation by the name of a common table expression, which its first occurrence
        defines."""
        name = self._shared[relation]
        if not name:
            name = self._shared[relation] = self._defined(super().block(relation))
        return self.item(name, len(relation.fields))

    def _defined(self, block: Block) -> str:
        """The name of a new common table expression."""
        name = f"s{len(self._with)}"
        self._with.append(f"{name} AS MATERIALIZED ({block_text(block)})")
        return name

    def scan(self, node: Scan) -> Block:
        block = super().scan(node)
        return self._materialized(block) if self._in_step else block

    def _materialized(self, block: Block) -> Block:
        """The rows of a table by the name of a common table expression: each iteration of a
        recursion reads them, and a stream can be read once only."""
        return self.item(self._defined(block), len(block.columns))

    def exists(self, node: nodes.Join, left: Block, right: Block) -> Block:
        """DuckDB 2.0 looks at the first row of a SEMI JOIN's right side only if the condition reads
        that side alone, and may do so before it applies the condition. So each part of such a
        condition stays on its side, and the join becomes EXISTS."""
        tests = self.tests(node, left, right)
        if (
            node.kind is not JoinKind.SEMI
            or not tests
            or any(sides == (True, True) for _, sides in tests)
        ):
            return super().exists(node, left, right)
        inside = " AND ".join(text for text, (reads_left, _) in tests if not reads_left)
        found = f"EXISTS (SELECT 1 FROM {right.source}{f' WHERE {inside}' if inside else ''})"
        outside = tuple(text for text, (reads_left, _) in tests if reads_left)
        return replace(left, where=(*left.where, *outside, found))

    def unnest(self, node: Unnest) -> Block:
        if len(node.arrays) > 1:
            raise Unrenderable("UNNEST of several arrays", node.position)
        block = self.wrapped(node.input)
        array = self.rendering.expression(node.arrays[0], block.columns)
        if node.outer:
            array = f"CASE WHEN COALESCE(len({array}), 0) = 0 THEN [NULL] ELSE {array} END"
        added = [f"unnest({array})"]
        if node.ordinality is not None:
            if node.outer:
                raise Unrenderable("UNNEST WITH ORDINALITY in an outer join", node.position)
            added.append(f"unnest(range(1, len({array}) + 1))")
        return self.around(replace(block, columns=(*block.columns, *added), is_plain=False))

    def recursion(self, node: Recursion) -> Block:
        name = f"r{len(self._recursions)}"
        self._recursions[node.name] = name
        word = "UNION" if node.distinct else "UNION ALL"
        width = len(node.fields)
        columns = ", ".join(f"c{i}" for i in range(width))
        anchor, around = self.part(node.anchor), self._in_step
        self._in_step = True
        body = f"{anchor} {word} {self.part(node.step)}"
        self._in_step = around
        return self.item(
            f"(WITH RECURSIVE {name}({columns}) AS ({body}) SELECT * FROM {name})", width
        )

    def working_table(self, node: WorkingTable) -> Block:
        name = self._recursions.get(node.name)
        if name is None:
            raise Unrenderable("the step of a WITH RECURSIVE by itself", node.position)
        return self.item(name, len(node.columns))
