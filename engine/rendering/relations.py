"""A relational sub-plan as one SELECT of another engine.

Every column has a name made up here (c0, c1, …, by place) and every FROM item an alias (t0, t1, …): no name and no text of
the user's is passed through. A node becomes part of the SELECT below it where that can't change its meaning, else a
SELECT around it. A node without a rule is refused, as is a use of one whose meaning the engine doesn't share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runnel import relation as nodes
from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import Column, Expression, Literal, columns_of
from runnel.fragment import InputRows, Unrenderable
from runnel.relation import JoinKind, Relation, Scan
from runnel.rendering.block import Block, block_text
from runnel.rendering.plan_shapes import COSTLY, computes_what_can_fail, is_chain, is_unique, repeated
from runnel.rendering.render import Rendering
from runnel.subqueries import GroupLimit
from runnel.windows import Window

ScanText = Callable[[Scan, tuple[int, ...]], str]
"""The FROM item, without an alias, for a scan: its columns are c0, c1, … for the table's columns at the places that are
given (at least one), in the engine's types for them."""

MOST_VALUES = 1000
"""A longer list of literal rows is not put into a text."""

_TWO_MATCHES = "more than one row returned by a subquery used as an expression"


def render_relation(relation: Relation, rendering: Rendering, scan: ScanText) -> str:
    """The SELECT that gives the rows of `relation`: its columns as c0, c1, …; in its order if it is sorted. A relation
    without columns gives one of no meaning. Raises Unrenderable."""
    return RelationRendering(rendering, scan).whole(relation)


class RelationRendering:
    """Renders one relation; counts the aliases."""

    rules: Mapping[type[Relation], Callable[[Any, Any], Block]] = {}

    def __init__(self, rendering: Rendering, scan: ScanText) -> None:
        self.rendering = rendering
        self._scan_text = scan
        self._aliases = 0
        self._recursions: dict[str, str] = {}
        self._shared: dict[Relation, str] = {}
        self._with: list[str] = []
        self._in_step = False

    def whole(self, relation: Relation) -> str:
        """The text of the plan itself, with what occurs in it more than once computed once."""
        if self.rendering.dialect.name == "duckdb":
            self._shared = dict.fromkeys(repeated(relation), "")
        text = self.select(relation)
        return f"WITH {', '.join(self._with)} {text}" if self._with else text

    @property
    def _same(self) -> str:
        return "<=>" if self.rendering.dialect.name == "spark" else "IS NOT DISTINCT FROM"

    def select(self, relation: Relation) -> str:
        return block_text(self.block(relation))

    def block(self, relation: Relation) -> Block:
        rule = self.rules.get(type(relation))
        if rule is None:
            raise Unrenderable(f"operator {type(relation).__name__}", relation.position)
        if self._shared and type(relation) in COSTLY and relation in self._shared:
            return self._once(relation, rule)
        return rule(self, relation)

    def _once(self, relation: Relation, rule: Callable[[RelationRendering, Any], Block]) -> Block:
        """The relation by the name of a common table expression, which its first occurrence defines."""
        name = self._shared[relation]
        if not name:
            text = block_text(rule(self, relation))
            name = self._shared[relation] = f"s{len(self._with)}"
            self._with.append(f"{name} AS MATERIALIZED ({text})")
        return self.item(name, len(relation.fields))

    def _kept(self, block: Block) -> Block:
        """The rows of a table by the name of a common table expression: every round of a recursion wants them, and what
        comes as a stream is there once."""
        name = f"s{len(self._with)}"
        self._with.append(f"{name} AS MATERIALIZED ({block_text(block)})")
        return self.item(name, len(block.columns))

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases - 1}"

    def item(self, text: str, width: int) -> Block:
        """Everything of a FROM item whose columns are c0, c1, …."""
        alias = self.alias()
        return Block(f"{text} AS {alias}", tuple(f"{alias}.c{i}" for i in range(width)), is_item=True)

    def wrapped(self, relation: Relation) -> Block:
        """A SELECT of its own around a relation."""
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
        read = (*node.columns, *sorted(columns_of(node.predicate) - set(node.columns) if node.predicate else ()))
        read = read or (0,)
        for column in read:
            self.rendering.type(node.table.columns[column].type)
        block = self.item(self._scan_text(node, read), len(read))
        if node.predicate is not None:
            places = {column: place for place, column in reversed(list(enumerate(read)))}
            texts = [block.columns[places[i]] if i in places else "" for i in range(len(node.table.columns))]
            block = replace(block, where=(self.rendering.condition(node.predicate, texts),))
        limit = "" if node.limit is None else f" LIMIT {int(node.limit)}"
        block = replace(block, columns=block.columns[: len(node.columns)], limit=limit)
        return self._kept(block) if self._in_step else block

    def input_rows(self, node: InputRows) -> Block:
        for item in node.columns:
            self.rendering.type(item.type)
        return self.item(input_name(node.number), len(node.columns))

    def values(self, node: nodes.Values) -> Block:
        if len(node.rows) > MOST_VALUES:
            raise Unrenderable("a long VALUES list", node.position)
        types = [self.rendering.type(item.type) for item in node.columns]
        if not node.rows:
            columns = ", ".join(f"CAST(NULL AS {kind}) AS c{i}" for i, kind in enumerate(types)) or "1 AS c0"
            return self.item(f"(SELECT {columns} WHERE 1 = 0)", len(types))
        selects = [f"SELECT {self._listed([self.rendering.expression(item, ()) for item in row])}" for row in node.rows]
        return self.item(f"({' UNION ALL '.join(selects)})", len(types))

    def _listed(self, texts: Sequence[str]) -> str:
        return ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts)) or "1 AS c0"

    def generate(self, node: nodes.Generate) -> Block:
        numbers = [item.value if isinstance(item, Literal) else None for item in node.arguments]
        if node.function != "generate_series" or any(not isinstance(number, int) for number in numbers):
            raise Unrenderable(f"table function {node.function.upper()} with such arguments", node.position)
        start, stop, *rest = (int(number) for number in numbers if number is not None)
        step = rest[0] if rest else 1
        if step == 0 or max(abs(start), abs(stop), abs(step)) >= 1 << 62:
            raise Unrenderable("GENERATE_SERIES with such bounds", node.position)
        end = stop + (1 if step > 0 else -1)
        alias = self.alias()
        return Block(f"range({start}, {end}, {step}) AS {alias}(c0)", (f"{alias}.c0",), is_item=True)

    def filter(self, node: nodes.Filter) -> Block:
        block = self.plain(node.input)
        condition = self.rendering.condition(node.condition, block.columns)
        if not can_fail(node.condition) and not computes_what_can_fail(node.input):
            return replace(block, where=(*block.where, condition))
        if block.where:
            # The engine may decide the parts of a WHERE in any order.
            condition = f"CASE WHEN {' AND '.join(block.where)} THEN {condition} ELSE FALSE END"
        if is_chain(node.input):
            return replace(block, where=(*block.where, condition))
        return self._decided_here(block, node)

    def _decided_here(self, block: Block, node: nodes.Filter) -> Block:
        """A filter that the engine doesn't apply before a join or GROUP BY that comes before it here, to rows that never come
        through: its condition depends on a volatile column of what is below."""
        never_negative = "rand()" if self.rendering.dialect.name == "spark" else "random()"
        marked = self.around(replace(block, columns=(*block.columns, never_negative), is_plain=False))
        columns, mark = marked.columns[:-1], marked.columns[-1]
        condition = self.rendering.condition(node.condition, columns)
        test = f"CASE WHEN {mark} >= 0 THEN {condition} ELSE FALSE END"
        return self.around(replace(marked, columns=columns, where=(test,)))

    def project(self, node: nodes.Project) -> Block:
        block = self.block(node.input)
        if not block.is_plain or block.group or block.limit:
            block = self.around(block)
        columns = tuple(self.rendering.expression(item, block.columns) for item in node.expressions)
        return replace(block, columns=columns, is_plain=all(isinstance(item, Column) for item in node.expressions))

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
        for place in range(len(node.names)):
            items = [expressions[place] for expressions in node.projections]
            texts = [self.rendering.expression(item, block.columns) for item in items]
            cases = "".join(f" WHEN {i} THEN {text}" for i, text in enumerate(texts))
            columns.append(texts[0] if len(set(texts)) == 1 else f"CASE {alias}.s{cases} END")
        source = f"{block.source} CROSS JOIN ({numbers}) AS {alias}"
        return self.around(replace(block, source=source, columns=tuple(columns), is_plain=False))

    def join(self, node: nodes.Join) -> Block:
        if node.kind in (JoinKind.INNER, JoinKind.CROSS) and node.condition is not None and can_fail(node.condition):
            return self.filter(nodes.Filter(input=replace(node, condition=None), condition=node.condition))
        left, right = self.plain(node.left), self.item_of(node.right)
        if left.where and node.kind in (JoinKind.RIGHT, JoinKind.FULL):
            left = self.around(left)
        match node.kind:
            case JoinKind.SEMI | JoinKind.ANTI | JoinKind.EXISTS_MARK:
                return self._exists(node, left, right)
            case JoinKind.NULL_ANTI | JoinKind.MARK:
                return self._in(node, left, right)
            case JoinKind.SINGLE:
                return self._single(node, left, right)
        on = self._on(node, left, right)
        columns = (*left.columns, *right.columns)
        if not on and node.kind in (JoinKind.INNER, JoinKind.CROSS):
            return Block(f"{left.source} CROSS JOIN {right.source}", columns, left.where)
        kind = {JoinKind.CROSS: "INNER"}.get(node.kind, node.kind.value.upper())
        return Block(f"{left.source} {kind} JOIN {right.source} ON {on or '1 = 1'}", columns, left.where)

    def _on(self, node: nodes.Join, left: Block, right: Block) -> str:
        parts = []
        for number, (first, second) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
            same = self._same if number in node.null_safe else "="
            parts.append(f"{self.rendering.key(first, left.columns)} {same} {self.rendering.key(second, right.columns)}")
        if node.condition is not None:
            if can_fail(node.condition):
                raise Unrenderable("a condition that can fail of a join that isn't an inner one", node.condition.position)
            parts.append(self.rendering.condition(node.condition, (*left.columns, *right.columns)))
        return " AND ".join(parts)

    def _exists(self, node: nodes.Join, left: Block, right: Block) -> Block:
        on = self._on(node, left, right)
        if node.kind is JoinKind.EXISTS_MARK:
            test = f"EXISTS (SELECT 1 FROM {right.source} WHERE {on or '1 = 1'})"
            self._check_left(node)
            return replace(left, columns=(*left.columns, test), is_plain=False)
        if not on:
            test = f"EXISTS (SELECT 1 FROM {right.source})"
            return replace(left, where=(*left.where, test if node.kind is JoinKind.SEMI else f"NOT {test}"))
        word = f"{'LEFT ' if self.rendering.dialect.name == 'spark' else ''}{node.kind.value.upper()}"
        return Block(f"{left.source} {word} JOIN {right.source} ON {on}", left.columns, left.where)

    def _in(self, node: nodes.Join, left: Block, right: Block) -> Block:
        if len(node.left_keys) != 1 or node.null_safe or node.condition is not None:
            raise Unrenderable("NOT IN, or IN as a value, over more than one column", node.position)
        operand = self.rendering.key(node.left_keys[0], left.columns)
        key = self.rendering.key(node.right_keys[0], right.columns)
        test = f"{operand} IN (SELECT {key} FROM {right.source})"
        if node.kind is JoinKind.NULL_ANTI:
            return replace(left, where=(*left.where, f"NOT ({test})"))
        if self.rendering.dialect.name == "spark":
            self._check_left(node)
            # Its IN of a query knows no NULL but in WHERE.
            found = f"EXISTS (SELECT 1 FROM {right.source} WHERE {key} = {operand})"
            unknown = f"{operand} IS NULL AND EXISTS (SELECT 1 FROM {right.source})"
            has_nulls = f"EXISTS (SELECT 1 FROM {right.source} WHERE {key} IS NULL)"
            test = f"CASE WHEN {found} THEN TRUE WHEN {unknown} OR {has_nulls} THEN NULL ELSE FALSE END"
        return replace(left, columns=(*left.columns, f"({test})"), is_plain=False)

    def _check_left(self, node: nodes.Join) -> None:
        """Spark works the columns of a SELECT out in the parts of a UNION ALL, and loses there what a sub-query is tied to."""
        has_parts = any(isinstance(item, (nodes.Union, nodes.Values)) for item in nodes.walk(node.left))
        if has_parts and self.rendering.dialect.name == "spark":
            raise Unrenderable("EXISTS or IN as a value over a UNION ALL or VALUES", node.position)

    def _single(self, node: nodes.Join, left: Block, right: Block) -> Block:
        columns = (*left.columns, *right.columns)
        if is_unique(node):
            source = f"{left.source} LEFT JOIN {right.source} ON {self._on(node, left, right) or '1 = 1'}"
            return Block(source, columns, left.where)
        if node.condition is not None or node.null_safe:
            raise Unrenderable("a correlated scalar subquery that may give two rows", node.position)
        keys = [self.rendering.key(item, right.columns) for item in node.right_keys]
        partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
        counted = replace(right, columns=(*right.columns, f"COUNT(*) OVER ({partition})"), is_plain=False)
        right = self.around(counted)
        on = self._on(node, left, right) or "1 = 1"
        count = right.columns[-1]
        failure = self.rendering.error(_TWO_MATCHES)
        check = f"CASE WHEN {count} > 1 THEN CAST({failure} AS BOOLEAN) ELSE TRUE END"
        columns = (*left.columns, *right.columns[:-1])
        return self.around(Block(f"{left.source} LEFT JOIN {right.source} ON {on}", columns, (*left.where, check)))

    def sort(self, node: nodes.Sort) -> Block:
        block = self.block(node.input)
        if not block.is_plain or block.group or block.order or block.limit:
            block = self.around(block)
        return replace(block, order=tuple(self.rendering.sort_key(key, block.columns) for key in node.keys))

    def limit(self, node: nodes.Limit) -> Block:
        block = self.block(node.input)
        if block.limit:
            block = self.around(block)
        text = ""
        if node.count is not None:
            text += f" LIMIT {self._row_count(node.count)}"
        if node.offset is not None:
            text += f" OFFSET {self._row_count(node.offset)}"
        return replace(block, limit=text)

    def _row_count(self, expression: Expression) -> str:
        """A number of rows; Spark has only INT for it."""
        text = self.rendering.expression(expression, ())
        if self.rendering.dialect.name != "spark":
            return text
        if isinstance(expression, Literal) and (expression.value or 0) >= 2**31:
            raise Unrenderable("LIMIT and OFFSET above 2147483647", expression.position)
        return f"CAST({text} AS INT)"

    def group_limit(self, node: GroupLimit) -> Block:
        block = self.plain(node.input)
        keys = ", ".join(self.rendering.key(item, block.columns) for item in node.keys)
        order = ", ".join(self.rendering.sort_key(item, block.columns) for item in node.order)
        if not order and self.rendering.dialect.name == "spark":
            order = "NULL"  # it numbers no rows without one
        over = " ".join([f"PARTITION BY {keys}"] * bool(keys) + [f"ORDER BY {order}"] * bool(order))
        numbered = self.around(replace(block, columns=(*block.columns, f"row_number() OVER ({over})"), is_plain=False))
        number, tests = numbered.columns[-1], []
        skipped = "0" if node.offset is None else self.rendering.expression(node.offset, ())
        if node.offset is not None:
            tests.append(f"{number} > {skipped}")
        if node.count is not None:
            tests.append(f"{number} - {skipped} <= {self.rendering.expression(node.count, ())}")
        return replace(numbered, columns=numbered.columns[:-1], where=tuple(tests))

    def union(self, node: nodes.Union) -> Block:
        made = self.item(f"({' UNION ALL '.join(self._part(part) for part in node.parts)})", len(node.fields))
        # Spark 4 can't always plan an ORDER BY right above it.
        return self.around(made) if self.rendering.dialect.name == "spark" else made

    def _part(self, relation: Relation) -> str:
        block = self.block(relation)
        return block_text(self.around(block) if block.order or block.limit else block)

    def set_operation(self, node: nodes.SetOperation) -> Block:
        sides = []
        for side in (node.left, node.right):
            block = self.wrapped(side)
            keys = [self.rendering.key(item, block.columns) for item in nodes.references(side.fields)]
            sides.append(block_text(replace(block, columns=tuple(keys))))
        word = node.operation.upper() + (" ALL" if node.all else "")
        return self.item(f"({sides[0]} {word} {sides[1]})", len(node.fields))

    def unnest(self, node: nodes.Unnest) -> Block:
        if self.rendering.dialect.name != "duckdb":
            raise Unrenderable("UNNEST", node.position)
        block = self.wrapped(node.input)
        array = self.rendering.expression(node.array, block.columns)
        if node.outer:
            array = f"CASE WHEN COALESCE(len({array}), 0) = 0 THEN [NULL] ELSE {array} END"
        added = [f"unnest({array})"]
        if node.ordinality is not None:
            if node.outer:
                raise Unrenderable("UNNEST WITH ORDINALITY in an outer join", node.position)
            added.append(f"unnest(range(1, len({array}) + 1))")
        return self.around(replace(block, columns=(*block.columns, *added), is_plain=False))

    def window(self, node: Window) -> Block:
        block = self.plain(node.input)
        calls = tuple(self.rendering.window(call, block.columns) for call in node.calls)
        return self.around(replace(block, columns=(*block.columns, *calls), is_plain=False))

    def recursion(self, node: nodes.Recursion) -> Block:
        if self.rendering.dialect.name != "duckdb":
            raise Unrenderable("WITH RECURSIVE", node.position)
        name = f"r{len(self._recursions)}"
        self._recursions[node.name] = name
        word = "UNION" if node.distinct else "UNION ALL"
        width = len(node.fields)
        columns = ", ".join(f"c{i}" for i in range(width))
        anchor, around = self._part(node.anchor), self._in_step
        self._in_step = True
        body = f"{anchor} {word} {self._part(node.step)}"
        self._in_step = around
        return self.item(f"(WITH RECURSIVE {name}({columns}) AS ({body}) SELECT * FROM {name})", width)

    def working_table(self, node: nodes.WorkingTable) -> Block:
        name = self._recursions.get(node.name)
        if name is None:
            raise Unrenderable("the step of a WITH RECURSIVE by itself", node.position)
        return self.item(name, len(node.columns))


def input_name(number: int) -> str:
    """What the rows of `InputRows` are called in the text: a table with the columns c0, c1, …."""
    return f"rows_{number}"


RelationRendering.rules = {
    InputRows: RelationRendering.input_rows,
    nodes.Scan: RelationRendering.scan,
    nodes.Values: RelationRendering.values,
    nodes.Generate: RelationRendering.generate,
    nodes.Filter: RelationRendering.filter,
    nodes.Project: RelationRendering.project,
    nodes.Aggregate: RelationRendering.aggregate,
    nodes.Expand: RelationRendering.expand,
    nodes.Join: RelationRendering.join,
    nodes.Sort: RelationRendering.sort,
    nodes.Limit: RelationRendering.limit,
    GroupLimit: RelationRendering.group_limit,
    nodes.Union: RelationRendering.union,
    nodes.SetOperation: RelationRendering.set_operation,
    nodes.Unnest: RelationRendering.unnest,
    Window: RelationRendering.window,
    nodes.Recursion: RelationRendering.recursion,
    nodes.WorkingTable: RelationRendering.working_table,
}
