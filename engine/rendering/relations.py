"""A relational subplan as one SELECT of another engine.

Columns are named c0, c1, … by index, and FROM items have the aliases t0, t1, …: no name and no text
of the user is passed through. A node is merged into the SELECT below it if that has the same
result, else it becomes a SELECT around it. A node without a rule is refused, and so is a node that
the engine evaluates with other semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import Column, Expression, Literal, columns_of, conjuncts
from runnel.foreign.fragment import InputRows, Unrenderable
from runnel.relation import nodes
from runnel.relation.nodes import JoinKind, Relation, Scan
from runnel.relation.over import Window
from runnel.relation.subqueries import GroupLimit
from runnel.rendering.plan_shapes import computes_what_can_fail, is_chain, is_unique
from runnel.rendering.render import Rendering
from runnel.rendering.window import over

ScanText = Callable[[Scan, tuple[int, ...]], str]
"""The FROM item of a scan, without an alias. Its columns c0, c1, … are the table's columns at the
indexes of the second argument (at least one), in the engine's types."""

Sides = tuple[bool, bool]
"""Whether a condition reads the left side of a join, and whether it reads the right side."""

MOST_VALUES = 1000
"""A longer list of literal rows is refused."""

_TWO_MATCHES = "more than one row returned by a subquery used as an expression"


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT under construction.

    source: the text of FROM.
    columns: the texts of the result's columns, over the aliases in `source`.
    where: the conjuncts of WHERE.
    is_plain: each column is a column of `source`, so that an expression over it can replace it.
    group, order, limit: the clauses that follow WHERE.
    is_item: `source` is one FROM item, not a join.
    """

    source: str
    columns: tuple[str, ...]
    where: tuple[str, ...] = ()
    is_plain: bool = True
    group: str = ""
    order: tuple[str, ...] = ()
    limit: str = ""
    is_item: bool = False


def block_text(block: Block) -> str:
    """The SELECT as text, with the columns c0, c1, …."""
    columns = ", ".join(f"{text} AS c{i}" for i, text in enumerate(block.columns)) or "1 AS c0"
    where = f" WHERE {' AND '.join(block.where)}" if block.where else ""
    group = f" GROUP BY {block.group}" if block.group else ""
    order = f" ORDER BY {', '.join(block.order)}" if block.order else ""
    return f"SELECT {columns} FROM {block.source}{where}{group}{order}{block.limit}"


class RelationRendering:
    """Renders one relation as an engine's SELECT, and counts the aliases. Engines override the
    methods and attributes in which they differ."""

    rules: ClassVar[Mapping[type[Relation], str]] = {
        InputRows: "input_rows",
        nodes.Scan: "scan",
        nodes.Values: "values",
        nodes.Generate: "generate",
        nodes.Filter: "filter",
        nodes.Project: "project",
        nodes.Aggregate: "aggregate",
        nodes.Expand: "expand",
        nodes.Join: "join",
        nodes.Sort: "sort",
        nodes.Limit: "limit",
        GroupLimit: "group_limit",
        nodes.Union: "union",
        nodes.SetOperation: "set_operation",
        Window: "window",
    }
    """The method that renders a node."""
    same = "IS NOT DISTINCT FROM"
    """The comparison by which NULL equals NULL."""
    never_negative = "random()"
    """A volatile number from 0 on."""
    semi, anti = "SEMI", "ANTI"

    def __init__(self, rendering: Rendering, scan: ScanText) -> None:
        self.rendering = rendering
        self._scan_text = scan
        self._aliases = 0

    def whole(self, relation: Relation) -> str:
        """The SELECT that returns the rows of `relation` with the columns c0, c1, …, in order if
        it is sorted. A relation without columns returns one column to ignore. Raises
        Unrenderable."""
        return self.select(relation)

    def select(self, relation: Relation) -> str:
        return block_text(self.block(relation))

    def block(self, relation: Relation) -> Block:
        rule = self.rules.get(type(relation))
        if rule is None:
            name = relation.clause or f"operator {type(relation).__name__}"
            raise Unrenderable(name, relation.position)
        block: Block = getattr(self, rule)(relation)
        return block

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases - 1}"

    def item(self, text: str, width: int) -> Block:
        """All rows of a FROM item whose columns are c0, c1, …."""
        alias = self.alias()
        return Block(
            f"{text} AS {alias}", tuple(f"{alias}.c{i}" for i in range(width)), is_item=True
        )

    def wrapped(self, relation: Relation) -> Block:
        """A separate SELECT around a relation."""
        return self.around(self.block(relation))

    def around(self, block: Block) -> Block:
        return self.item(f"({block_text(block)})", len(block.columns))

    def plain(self, relation: Relation) -> Block:
        """The relation as a block of which only FROM and WHERE are used."""
        block = self.block(relation)
        is_open = block.is_plain and not (block.group or block.order or block.limit)
        return block if is_open else self.around(block)

    def item_of(self, relation: Relation) -> Block:
        """The relation as one FROM item, the right side of a join."""
        block = self.plain(relation)
        return block if block.is_item and not block.where else self.around(block)

    def scan(self, node: Scan) -> Block:
        read = (
            *node.columns,
            *sorted(columns_of(node.predicate) - set(node.columns) if node.predicate else ()),
        )
        read = read or (0,)
        for column in read:
            self.rendering.type(node.table.columns[column].type)
        block = self.item(self._scan_text(node, read), len(read))
        if node.predicate is not None:
            by_column = dict(zip(read, block.columns, strict=True))
            texts = [by_column.get(i, "") for i in range(len(node.table.columns))]
            block = replace(block, where=(self.rendering.condition(node.predicate, texts),))
        limit = "" if node.limit is None else f" LIMIT {int(node.limit)}"
        return replace(block, columns=block.columns[: len(node.columns)], limit=limit)

    def input_rows(self, node: InputRows) -> Block:
        for item in node.columns:
            self.rendering.type(item.type)
        return self.item(input_name(node.number), len(node.columns))

    def values(self, node: nodes.Values) -> Block:
        if len(node.rows) > MOST_VALUES:
            raise Unrenderable("a long VALUES list", node.position)
        types = [self.rendering.type(item.type) for item in node.columns]
        if not node.rows:
            columns = (
                ", ".join(f"CAST(NULL AS {kind}) AS c{i}" for i, kind in enumerate(types))
                or "1 AS c0"
            )
            return self.item(f"(SELECT {columns} WHERE 1 = 0)", len(types))
        selects = [
            f"SELECT {self._listed([self.rendering.expression(item, ()) for item in row])}"
            for row in node.rows
        ]
        return self.item(f"({' UNION ALL '.join(selects)})", len(types))

    def _listed(self, texts: Sequence[str]) -> str:
        return ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts)) or "1 AS c0"

    def generate(self, node: nodes.Generate) -> Block:
        numbers = [item.value if isinstance(item, Literal) else None for item in node.arguments]
        if node.function != "generate_series" or any(
            not isinstance(number, int) for number in numbers
        ):
            raise Unrenderable(
                f"table function {node.function.upper()} with such arguments", node.position
            )
        start, stop, *rest = (int(number) for number in numbers if number is not None)
        step = rest[0] if rest else 1
        if step == 0 or max(abs(start), abs(stop), abs(step)) >= 1 << 62:
            raise Unrenderable("GENERATE_SERIES with such bounds", node.position)
        end = stop + (1 if step > 0 else -1)
        alias = self.alias()
        return Block(
            f"range({start}, {end}, {step}) AS {alias}(c0)", (f"{alias}.c0",), is_item=True
        )

    def filter(self, node: nodes.Filter) -> Block:
        block = self.plain(node.input)
        condition = self.rendering.condition(node.condition, block.columns)
        if not can_fail(node.condition) and not computes_what_can_fail(node.input):
            return replace(block, where=(*block.where, condition))
        if block.where:
            # The engine may evaluate the conjuncts of a WHERE in any order.
            condition = f"CASE WHEN {' AND '.join(block.where)} THEN {condition} ELSE FALSE END"
        if is_chain(node.input):
            return replace(block, where=(*block.where, condition))
        return self._decided_here(block, node)

    def _decided_here(self, block: Block, node: nodes.Filter) -> Block:
        """A filter that the engine cannot move below a join or GROUP BY, where its condition might
        fail on rows that the plan removes: the condition depends on a volatile column of the
        input."""
        marked = self.around(
            replace(block, columns=(*block.columns, self.never_negative), is_plain=False)
        )
        columns, mark = marked.columns[:-1], marked.columns[-1]
        condition = self.rendering.condition(node.condition, columns)
        test = f"CASE WHEN {mark} >= 0 THEN {condition} ELSE FALSE END"
        return self.around(replace(marked, columns=columns, where=(test,)))

    def project(self, node: nodes.Project) -> Block:
        block = self.block(node.input)
        if not block.is_plain or block.group or block.limit:
            block = self.around(block)
        columns = tuple(self.rendering.expression(item, block.columns) for item in node.expressions)
        return replace(
            block,
            columns=columns,
            is_plain=all(isinstance(item, Column) for item in node.expressions),
        )

    def aggregate(self, node: nodes.Aggregate) -> Block:
        block = self.plain(node.input)
        keys = [self.rendering.key(item, block.columns) for item in node.keys]
        values = [self.rendering.aggregate(call, block.columns) for call in node.aggregates]
        group = ", ".join(str(i + 1) for i in range(len(keys)))
        if not keys and not values:
            return self.item("(SELECT 1 AS c0)", 0)
        return replace(block, columns=(*keys, *values), is_plain=False, group=group)

    def expand(self, node: nodes.Expand) -> Block:
        block = self.plain(node.input)
        alias = self.alias()
        numbers = " UNION ALL ".join(f"SELECT {i} AS s" for i in range(len(node.projections)))
        columns = []
        for items in zip(*node.projections, strict=True):
            texts = [self.rendering.expression(item, block.columns) for item in items]
            columns.append(_by_number(f"{alias}.s", texts))
        source = f"{block.source} CROSS JOIN ({numbers}) AS {alias}"
        return self.around(replace(block, source=source, columns=tuple(columns), is_plain=False))

    def join(self, node: nodes.Join) -> Block:
        if (
            node.kind in (JoinKind.INNER, JoinKind.CROSS)
            and node.condition is not None
            and can_fail(node.condition)
        ):
            return self.filter(
                nodes.Filter(input=replace(node, condition=None), condition=node.condition)
            )
        left, right = self.plain(node.left), self.item_of(node.right)
        if left.where and node.kind in (JoinKind.RIGHT, JoinKind.FULL):
            left = self.around(left)
        match node.kind:
            case JoinKind.SEMI | JoinKind.ANTI | JoinKind.EXISTS_MARK:
                return self.exists(node, left, right)
            case JoinKind.NULL_ANTI | JoinKind.MARK:
                return self._in(node, left, right)
            case JoinKind.SINGLE:
                return self._single(node, left, right)
        on = self._on(node, left, right)
        columns = (*left.columns, *right.columns)
        if not on and node.kind in (JoinKind.INNER, JoinKind.CROSS):
            return Block(f"{left.source} CROSS JOIN {right.source}", columns, left.where)
        kind = {JoinKind.CROSS: "INNER"}.get(node.kind, node.kind.value.upper())
        return Block(
            f"{left.source} {kind} JOIN {right.source} ON {on or '1 = 1'}", columns, left.where
        )

    def _on(self, node: nodes.Join, left: Block, right: Block) -> str:
        return " AND ".join(text for text, _ in self.tests(node, left, right))

    def tests(self, node: nodes.Join, left: Block, right: Block) -> list[tuple[str, Sides]]:
        """The conjuncts of the join condition, each with the sides whose columns it reads."""
        tests = []
        for number, (first, second) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
            same = self.same if number in node.null_safe else "="
            text = (
                f"{self.rendering.key(first, left.columns)} {same} "
                f"{self.rendering.key(second, right.columns)}"
            )
            tests.append((text, (bool(columns_of(first)), bool(columns_of(second)))))
        if node.condition is not None and can_fail(node.condition):
            raise Unrenderable(
                "a condition that can fail of a join that isn't an inner one",
                node.condition.position,
            )
        width = len(left.columns)
        for test in conjuncts(node.condition):
            text = self.rendering.condition(test, (*left.columns, *right.columns))
            reads = columns_of(test)
            tests.append((text, (any(i < width for i in reads), any(i >= width for i in reads))))
        return tests

    def exists(self, node: nodes.Join, left: Block, right: Block) -> Block:
        """Rows by whether they have a match."""
        on = self._on(node, left, right)
        if node.kind is JoinKind.EXISTS_MARK:
            test = f"EXISTS (SELECT 1 FROM {right.source} WHERE {on or '1 = 1'})"
            return replace(left, columns=(*left.columns, test), is_plain=False)
        if not on:
            test = f"EXISTS (SELECT 1 FROM {right.source})"
            return replace(
                left, where=(*left.where, test if node.kind is JoinKind.SEMI else f"NOT {test}")
            )
        word = self.semi if node.kind is JoinKind.SEMI else self.anti
        return Block(f"{left.source} {word} JOIN {right.source} ON {on}", left.columns, left.where)

    def _in(self, node: nodes.Join, left: Block, right: Block) -> Block:
        if len(node.left_keys) != 1 or node.null_safe or node.condition is not None:
            raise Unrenderable("NOT IN, or IN as a value, over more than one column", node.position)
        operand = self.rendering.key(node.left_keys[0], left.columns)
        key = self.rendering.key(node.right_keys[0], right.columns)
        test = self.found_in(operand, key, node, right)
        if node.kind is JoinKind.NULL_ANTI:
            return replace(left, where=(*left.where, f"NOT ({test})"))
        return replace(left, columns=(*left.columns, f"({test})"), is_plain=False)

    def found_in(self, operand: str, key: str, node: nodes.Join, right: Block) -> str:
        """Whether a value is among the keys of a query."""
        return f"{operand} IN (SELECT {key} FROM {right.source})"

    def _single(self, node: nodes.Join, left: Block, right: Block) -> Block:
        columns = (*left.columns, *right.columns)
        if is_unique(node):
            source = (
                f"{left.source} LEFT JOIN {right.source} ON "
                f"{self._on(node, left, right) or '1 = 1'}"
            )
            return Block(source, columns, left.where)
        if node.condition is not None or node.null_safe:
            raise Unrenderable("a correlated scalar subquery that may give two rows", node.position)
        keys = [self.rendering.key(item, right.columns) for item in node.right_keys]
        partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
        counted = replace(
            right, columns=(*right.columns, f"COUNT(*) OVER ({partition})"), is_plain=False
        )
        right = self.around(counted)
        on = self._on(node, left, right) or "1 = 1"
        count = right.columns[-1]
        failure = self.rendering.error(_TWO_MATCHES)
        check = f"CASE WHEN {count} > 1 THEN CAST({failure} AS BOOLEAN) ELSE TRUE END"
        columns = (*left.columns, *right.columns[:-1])
        return self.around(
            Block(f"{left.source} LEFT JOIN {right.source} ON {on}", columns, (*left.where, check))
        )

    def sort(self, node: nodes.Sort) -> Block:
        block = self.block(node.input)
        if not block.is_plain or block.group or block.order or block.limit:
            block = self.around(block)
        return replace(
            block, order=tuple(self.rendering.sort_key(key, block.columns) for key in node.keys)
        )

    def limit(self, node: nodes.Limit) -> Block:
        block = self.block(node.input)
        if block.limit:
            block = self.around(block)
        text = ""
        if node.count is not None:
            text += f" LIMIT {self.row_count(node.count)}"
        if node.offset is not None:
            text += f" OFFSET {self.row_count(node.offset)}"
        return replace(block, limit=text)

    def row_count(self, expression: Expression) -> str:
        """A number of rows, for LIMIT and OFFSET."""
        return self.rendering.expression(expression, ())

    def group_limit(self, node: GroupLimit) -> Block:
        block = self.plain(node.input)
        keys = ", ".join(self.rendering.key(item, block.columns) for item in node.keys)
        order = ", ".join(self.rendering.sort_key(item, block.columns) for item in node.order)
        over = f"row_number() OVER ({self.numbered_by(keys, order)})"
        numbered = self.around(replace(block, columns=(*block.columns, over), is_plain=False))
        number, tests = numbered.columns[-1], []
        skipped = "0" if node.offset is None else self.rendering.expression(node.offset, ())
        if node.offset is not None:
            tests.append(f"{number} > {skipped}")
        if node.count is not None:
            tests.append(f"{number} - {skipped} <= {self.rendering.expression(node.count, ())}")
        return replace(numbered, columns=numbered.columns[:-1], where=tuple(tests))

    def numbered_by(self, keys: str, order: str) -> str:
        """The content of OVER that numbers the rows of each group; `order` may be empty."""
        return " ".join([f"PARTITION BY {keys}"] * bool(keys) + [f"ORDER BY {order}"] * bool(order))

    def union(self, node: nodes.Union) -> Block:
        return self.item(
            f"({' UNION ALL '.join(self.part(part) for part in node.parts)})", len(node.fields)
        )

    def part(self, relation: Relation) -> str:
        """An operand of a UNION."""
        block = self.block(relation)
        return block_text(self.around(block) if block.order or block.limit else block)

    def set_operation(self, node: nodes.SetOperation) -> Block:
        sides = []
        for side in (node.left, node.right):
            block = self.wrapped(side)
            keys = [
                self.rendering.key(item, block.columns) for item in nodes.references(side.fields)
            ]
            sides.append(block_text(replace(block, columns=tuple(keys))))
        word = node.operation.upper() + (" ALL" if node.all else "")
        return self.item(f"({sides[0]} {word} {sides[1]})", len(node.fields))

    def window(self, node: Window) -> Block:
        block = self.plain(node.input)
        calls = tuple(over(self.rendering, call, block.columns) for call in node.calls)
        return self.around(replace(block, columns=(*block.columns, *calls), is_plain=False))


def input_name(number: int) -> str:
    """The name of the table with the rows of `InputRows`; its columns are c0, c1, …."""
    return f"rows_{number}"


def _by_number(number: str, texts: Sequence[str]) -> str:
    """The text at the index `number`. The most frequent text is the ELSE: in most of many grouping
    sets a key is NULL."""
    numbers: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        numbers.setdefault(text, []).append(i)
    usual = max(numbers, key=lambda text: len(numbers[text]))
    cases = "".join(
        f" WHEN {number} IN ({', '.join(map(str, chosen))}) THEN {text}"
        for text, chosen in numbers.items()
        if text != usual
    )
    return f"CASE{cases} ELSE {usual} END" if cases else usual
