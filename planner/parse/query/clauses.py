"""The table of the clauses, operators and literals of a query: one entry each, with its words, its
rule over tokens, and the nodes of sqlglot's tree that the binder understands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlglot import TokenType

from runnel.planner.parse.query import (
    json_clauses,
    query_end,
    rules,
    shapes,
    table_arguments,
)
from runnel.planner.parse.query.shapes import Shape
from runnel.planner.parse.query.token_pass import Key, Rule, Rules
from runnel.planner.parse.types import TYPE_WORDS

CASTS = ("CAST", "TRY_CAST")
_FRAME_UNITS = ("ROWS", "RANGE", "GROUPS")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_LONG_UNITS = (
    "DECADE",
    "DECADES",
    "CENTURY",
    "CENTURIES",
    "MILLENNIUM",
    "MILLENNIUMS",
    "MILLENNIA",
)
_FRACTIONS = ("MILLISECOND", "MICROSECOND")


class Clause(NamedTuple):
    """One clause. Every field but the name is optional.

    name: the clause as users write it.
    begins: the words with which `rule` runs: upper case, or the type of a token without a word.
    inside: the functions directly in whose parentheses `rule` runs; () for everywhere.
    rule: writes tokens for sqlglot in place of the clause's tokens, or refuses the clause. If
        several entries have the same word, their rules run in the order of this table, until one
        has written tokens.
    dropped: the words that sqlglot parses but that no node of its tree retains, or only an exp.Var
        without a position. A word that is a keyword of sqlglot is never missed.
    not_called: the words that are no function, though a parenthesis follows.
    not_called_after: pairs (first word, second word): the second word is no function after the
        first.
    nodes: for each class of sqlglot's nodes, by name, the arguments that may be set. A class in
        several entries has the arguments of all.
    shapes: a check of the node and its surroundings, for some of the classes.
    variables: the words that an exp.Var in the node may have, for some of the classes; None: any
        word.
    """

    name: str
    begins: Iterable[Key] = ()
    inside: Iterable[str] = ()
    rule: Rule | None = None
    dropped: Iterable[str] = ()
    not_called: Iterable[str] = ()
    not_called_after: Iterable[tuple[str, str]] = ()
    nodes: Mapping[str, str] = {}
    shapes: Mapping[str, Shape] = {}
    variables: Mapping[str, tuple[str, ...] | None] = {}


def _each(names: str, arguments: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), arguments)


def _operators(names: str) -> dict[str, str]:
    return _each(names, "this expression")


_QUERIES = "Select Union Intersect Except Subquery Values"
_QUERIES_WITH = "Select Union Intersect Except Subquery"

CLAUSES: tuple[Clause, ...] = (
    # queries
    Clause(
        "SELECT",
        ("SELECT",),
        (),
        rules.select,
        nodes={"Select": "expressions", "Alias": "this alias"},
        shapes={"Select": shapes.select, "Alias": shapes.alias},
    ),
    Clause(
        "SELECT DISTINCT",
        nodes={"Select": "distinct", "Distinct": "expressions on"},
        shapes={"Distinct": shapes.distinct},
    ),
    Clause(
        "* EXCLUDE, * REPLACE, * RENAME",
        ("EXCLUDE", "EXCEPT", "REPLACE", "RENAME"),
        (),
        rules.star_list,
        nodes={"Star": "except_ replace rename"},
        shapes={"Star": shapes.star},
    ),
    Clause(
        "COLUMNS(lambda c: …), LIST_TRANSFORM(a, x -> …)",
        dropped=("LAMBDA",),
        nodes={"Lambda": "this expressions"},
        shapes={"Lambda": shapes.lambda_function},
    ),
    Clause("|/ x, x # y, x !", ("|", "||", "#", "!"), (), rules.absent_operator),
    Clause("SELECT a, FROM t", (",",), (), rules.comma_at_the_end),
    Clause("f(*COLUMNS('…'))", ("*",), (), rules.unpacked_columns),
    Clause("SELECT a AS b", ("AS",), (), rules.missing_before_as),
    Clause("VALUES", nodes={"Values": "expressions alias"}),
    Clause("TABLE t", ("TABLE",), (), rules.whole_query),
    Clause("(SELECT …)", nodes={"Subquery": "this alias"}),
    Clause(
        "UNION",
        nodes=_each("Union Intersect Except", "this expression distinct"),
        shapes=dict.fromkeys(("Union", "Intersect", "Except"), shapes.set_operation),
    ),
    Clause("UNION BY NAME", dropped=("BY", "NAME"), nodes={"Union": "by_name"}),
    Clause("ORDER BY … WITH FILL", ("WITH",), (), query_end.with_fill),
    Clause(
        "WITH",
        ("WITH",),
        (),
        rules.common_tables,
        nodes={
            **_each(_QUERIES_WITH, "with_"),
            "With": "expressions recursive",
            "CTE": "this alias",
        },
    ),
    Clause("the end of WITH", (")",), (), rules.end_of_common_table),
    Clause(
        "WITH MATERIALIZED",
        dropped=("MATERIALIZED",),
        not_called=("MATERIALIZED",),
        nodes={"CTE": "materialized"},
    ),
    Clause("WHERE", nodes={"Select": "where", "Where": "this"}),
    Clause(
        "GROUP BY",
        nodes={"Select": "group", "Group": "expressions all"},
        shapes={"Group": shapes.group},
    ),
    Clause(
        "GROUPING SETS",
        (",", ")"),
        ("ROLLUP", "CUBE", "GROUPING SETS"),
        rules.grouping_element,
        dropped=("GROUPING", "SETS", "ROLLUP", "CUBE"),
        not_called_after=(("GROUPING", "SETS"),),
        nodes=_each("Rollup Cube GroupingSets", "expressions"),
        shapes=dict.fromkeys(("Rollup", "Cube", "GroupingSets"), shapes.grouping_sets),
    ),
    Clause("HAVING", nodes={"Select": "having", "Having": "this"}),
    Clause("QUALIFY", nodes={"Select": "qualify", "Qualify": "this"}),
    Clause(
        "ORDER BY",
        ("ASC", "DESC"),
        (),
        rules.direction,
        nodes={**_each(_QUERIES, "order"), "Order": "this expressions", "Ordered": "this desc"},
        shapes={"Order": shapes.order},
    ),
    Clause("ORDER BY ALL", variables={"Ordered": ("ALL",)}),
    Clause(
        "NULLS FIRST",
        ("NULLS",),
        (),
        query_end.order_of_nulls,
        dropped=("NULLS", "FIRST", "LAST", "FILL"),
        nodes={"Ordered": "nulls_first with_fill", "WithFill": ""},
    ),
    Clause(
        "LIMIT",
        nodes={
            **_each(_QUERIES, "limit offset"),
            "Limit": "this expression limit_options",
            "Offset": "expression",
        },
        shapes={"Limit": shapes.limit},
        variables={"Limit": ("ALL",)},
    ),
    Clause(
        "FETCH",
        dropped=("FIRST",),
        not_called_after=(("FETCH", "FIRST"), ("FETCH", "NEXT")),
        nodes={"Fetch": "count direction limit_options", "LimitOptions": "rows percent"},
    ),
    Clause("the end of LIMIT", ("ONLY", "ROW", "ROWS"), (), rules.end_of_limit),
    Clause("EMIT EVERY", [first for first, _ in query_end.EMISSION], (), query_end.emission),
    Clause("EMIT CHANGES", [query_end.CHANGES[0]], (), query_end.emission),
    Clause("OPTIONS", ("OPTIONS",), (), query_end.options),
    # tables
    Clause(
        "FROM",
        nodes={
            "Select": "from_",
            "From": "this",
            "Table": "this db catalog alias ordinality",
            "TableAlias": "this columns",
        },
        shapes={"Table": shapes.table},
    ),
    Clause(
        "JOIN",
        ("JOIN",),
        (),
        rules.plain_join,
        nodes={**_each("Select Subquery Table", "joins"), "Join": "this on using side kind method"},
        shapes={"Join": shapes.join},
    ),
    Clause(
        "TABLESAMPLE, USING SAMPLE",
        ("TABLESAMPLE", "USING"),
        (),
        table_arguments.sample,
        dropped=(*table_arguments.METHODS, "REPEATABLE", "SAMPLE"),
        nodes={
            **_each("Select Table Subquery", "sample"),
            "TableSample": "method percent size seed",
        },
        variables={"TableSample": table_arguments.METHODS},
    ),
    Clause(
        "PIVOT, UNPIVOT",
        dropped=("INCLUDE", "EXCLUDE", "NULLS"),
        not_called_after=(("INCLUDE", "NULLS"), ("EXCLUDE", "NULLS")),
        nodes={
            **_each("Table Subquery", "pivots"),
            "Pivot": "expressions fields unpivot include_nulls group alias",
            "PivotAlias": "this alias",
        },
        shapes={"Pivot": shapes.pivot, "PivotAlias": shapes.pivot_alias},
    ),
    Clause(
        "(DESCRIBE t), (SUMMARIZE t), (SHOW TABLES)",
        ("DESCRIBE", "SUMMARIZE", "SHOW"),
        (),
        table_arguments.rows_of_statement,
    ),
    Clause("LATERAL", nodes={"Lateral": "this alias ordinality"}),
    Clause(
        "UNNEST",
        nodes={"Unnest": "expressions alias offset", "Explode": "this expressions"},
        shapes={"Explode": shapes.explode},
    ),
    Clause(
        "FOR SYSTEM_TIME AS OF",
        dropped=("SYSTEM_TIME", "OF"),
        nodes={"Table": "version", "Version": "this kind expression"},
    ),
    Clause("MATCH_RECOGNIZE", ("MATCH_RECOGNIZE",), (), table_arguments.row_pattern),
    Clause("f(TABLE t)", ("TABLE",), (), table_arguments.table),
    Clause(
        "f(name => x)",
        ("=>",),
        table_arguments.FUNCTIONS,
        table_arguments.argument_name,
        nodes={"Kwarg": "this expression"},
        shapes={"Kwarg": shapes.kwarg},
        variables={"Kwarg": None},
    ),
    Clause(
        "f(TABLE t PARTITION BY a)",
        ("PARTITION BY",),
        table_arguments.FUNCTIONS,
        table_arguments.partition,
    ),
    Clause(
        "the end of f(TABLE t PARTITION BY a)",
        (",", ")"),
        (table_arguments.PARTITION,),
        table_arguments.end_of_partition,
    ),
    # calls
    Clause("pg_catalog.f(a)", ("PG_CATALOG",), (), rules.postgresql_name),
    Clause("a OPERATOR(schema.+) b", ("OPERATOR",), (), rules.postgresql_name),
    Clause('a COLLATE "C"', ("COLLATE",), (), rules.postgresql_name),
    Clause("f(a)", nodes={"Anonymous": "this expressions"}),
    Clause(
        "FILTER",
        not_called_after=((")", "FILTER"), ("NULLS", "FILTER")),
        nodes={"Filter": "this expression"},
        shapes={"Filter": shapes.filter_of_call},
    ),
    Clause(
        "WITHIN GROUP",
        dropped=("WITHIN", "GROUP"),
        not_called_after=(("WITHIN", "GROUP"),),
        nodes={"WithinGroup": "this expression"},
        shapes={"WithinGroup": shapes.within_group},
    ),
    Clause(
        "IGNORE NULLS",
        dropped=("IGNORE", "RESPECT", "NULLS"),
        nodes=_each("IgnoreNulls RespectNulls", "this"),
        shapes=dict.fromkeys(("IgnoreNulls", "RespectNulls"), shapes.nulls_option),
    ),
    Clause(
        "OVER, WINDOW",
        nodes={"Select": "windows", "Window": "this partition_by order spec alias over"},
        shapes={"Window": shapes.window},
    ),
    Clause(
        "frame of OVER",
        _FRAME_UNITS,
        (),
        rules.frame,
        dropped=(
            *_FRAME_UNITS,
            *("UNBOUNDED", "PRECEDING", "FOLLOWING", "CURRENT"),
            *("EXCLUDE", "NO", "OTHERS", "GROUP", "TIES"),
        ),
        nodes={"WindowSpec": "kind start start_side end end_side exclude"},
        shapes={"WindowSpec": shapes.frame(_FRAME_UNITS)},
        variables={"WindowSpec": ("NO OTHERS", "CURRENT ROW", "GROUP", "TIES")},
    ),
    Clause("EXTRACT(f FROM a)", ("FROM",), ("EXTRACT",), rules.separator),
    Clause("FLOOR(a TO unit)", ("TO",), ("FLOOR", "CEIL", "CEILING"), rules.unit_of_rounding),
    Clause("SUBSTRING(a FROM b FOR c)", ("FROM", "FOR"), ("SUBSTRING",), rules.separator),
    Clause("POSITION(a IN b)", ("IN", "FROM"), ("POSITION",), rules.separator),
    Clause(
        "OVERLAY(a PLACING b FROM c FOR d)",
        ("PLACING", "FROM", "FOR"),
        ("OVERLAY",),
        rules.separator,
    ),
    Clause(
        "TRIM(BOTH a FROM b)",
        dropped=("TRIM", "BOTH", "LEADING", "TRAILING"),
        not_called=("TRIM",),
        nodes={"Trim": "this expression position"},
    ),
    # scalars
    Clause(
        "names",
        nodes={
            "Column": "this table db catalog",
            "Identifier": "this quoted",
            "Dot": "this expression",
            "Var": "this",
        },
    ),
    Clause("literals", nodes={"Literal": "this is_string", "Boolean": "this", "Null": ""}),
    Clause("?", ("?",), (), rules.parameter, nodes={"Parameter": "this"}),
    Clause(
        "(a)",
        nodes={"Paren": "this", "Tuple": "expressions"},
        shapes={"Tuple": shapes.list_of_values},
    ),
    Clause(
        "a[1]",
        nodes={
            "Array": "expressions value_constructor bracket_notation",
            "Bracket": "this expressions",
            "Slice": "this expression",
        },
        shapes={"Array": shapes.array, "Bracket": shapes.bracket},
    ),
    Clause(
        "[x + 1 FOR x IN list IF x > 1]",
        dropped=("IF",),
        nodes={"Comprehension": "this expression position iterator condition"},
        shapes={"Comprehension": shapes.comprehension},
    ),
    Clause(
        "{'a': 1}, MAP {'a': 1}",
        (TokenType.STRING,),
        ("{",),
        rules.field_name,
        dropped=("MAP",),
        nodes={"Struct": "expressions", "PropertyEQ": "this expression", "ToMap": "this"},
        shapes={"Struct": shapes.struct, "PropertyEQ": shapes.struct_field},
    ),
    Clause(
        "CAST",
        ("AS",),
        CASTS,
        rules.cast_type,
        dropped=CASTS,
        not_called=CASTS,
        nodes={"Cast": "this to", "TryCast": "this to safe", "DataType": "this kind"},
        shapes={"DataType": shapes.data_type},
    ),
    Clause("::", ("::",), (), rules.cast_type),
    Clause("DATE '…'", TYPE_WORDS, (), rules.typed_literal),
    Clause(
        "INTERVAL '…'",
        (TokenType.STRING,),
        (),
        rules.whole_interval,
        dropped=(
            "TO",
            *_LONG_UNITS,
            *(f"{unit}{s}" for unit in (*_UNITS, *_FRACTIONS) for s in ("", "S")),
        ),
        nodes={"Interval": "this unit", "IntervalSpan": "this expression"},
        shapes={"Interval": shapes.interval},
        variables={"Interval": None, "IntervalSpan": None},
    ),
    Clause("X'…'", ("X",), (), rules.hexadecimal),
    Clause("E'…'", (TokenType.BYTE_STRING,), (), rules.escaped_string),
    Clause(
        "a + b",
        nodes={
            **_operators("Add Sub Mul Mod Pow IntDiv"),
            "Div": "this expression typed safe",
            "Neg": "this",
        },
    ),
    Clause(
        "a & b",
        nodes={
            **_operators("BitwiseAnd BitwiseOr BitwiseLeftShift BitwiseRightShift"),
            "BitwiseNot": "this",
        },
    ),
    Clause("a || b", nodes={"DPipe": "this expression safe"}),
    Clause(
        "a @> b",
        nodes=_operators("ArrayContainsAll ArrayContainedBy ArrayOverlaps StartsWith"),
    ),
    Clause("j #> '{a,b}'", nodes=_operators("JSONBExtract JSONBExtractScalar")),
    Clause("a GLOB b", nodes=_operators("Glob")),
    Clause("a < b", nodes=_operators("EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Overlaps")),
    Clause("AND", nodes={**_operators("And Or"), "Not": "this"}),
    Clause(
        "IS NULL",
        ("NULL", "TRUE", "FALSE", "UNKNOWN", "ISNULL", "NOTNULL"),
        (),
        rules.end_of_test,
        nodes=_operators("Is"),
        shapes={"Is": shapes.test},
    ),
    Clause("IS JSON", dropped=("SCALAR", "VALUE"), nodes={"JSON": "this"}),
    Clause("IN", nodes={"In": "this expressions query field"}, shapes={"In": shapes.membership}),
    Clause(
        "EXISTS, ANY, ALL", nodes=_each("Exists Any All", "this"), shapes={"Exists": shapes.exists}
    ),
    Clause("BETWEEN", nodes={"Between": "this low high"}),
    Clause(
        "BETWEEN SYMMETRIC",
        dropped=("SYMMETRIC", "ASYMMETRIC"),
        not_called=("SYMMETRIC", "ASYMMETRIC"),
        nodes={"Between": "symmetric"},
    ),
    Clause(
        "LIKE",
        nodes={
            **_each("Like ILike", "this expression negate"),
            **_operators("Escape SimilarTo RegexpLike RegexpILike"),
        },
        shapes={"Escape": shapes.escape},
    ),
    Clause("CASE", nodes={"Case": "this ifs default", "If": "this true"}),
    Clause(
        "AT TIME ZONE",
        dropped=("AT", "ZONE"),
        not_called_after=(("TIME", "ZONE"),),
        nodes={"AtTimeZone": "this zone"},
    ),
    # JSON
    Clause(
        "j -> p",
        nodes={
            "JSONExtract": "this expression only_json_types",
            "JSONExtractScalar": "this expression only_json_types scalar_only",
        },
    ),
    Clause("f(j -> 'a')", ("->",), (), rules.arrow),
    Clause(
        "lambda x: …",
        (":",),
        rules.LAMBDA_CALLS,
        rules.lambda_colon,
        not_called_after=(("CROSS", "APPLY"), ("OUTER", "APPLY")),
    ),
    Clause("alias: a", (":",), (), rules.colon),
    Clause("KEY a VALUE b", ("KEY", "VALUE", ":"), json_clauses.PAIRS, json_clauses.pair),
    Clause("NULL ON EMPTY", json_clauses.FIRST_WORDS, json_clauses.FUNCTIONS, json_clauses.phrase),
    Clause(
        "RETURNING, DEFAULT", ("RETURNING", "DEFAULT"), json_clauses.FUNCTIONS, json_clauses.operand
    ),
    # signs
    Clause("a, b", (",",), (), rules.comma),
    Clause("(", ("(",), (), rules.opening),
    Clause(")", (")",), (), rules.closing),
    Clause("[", ("[",), (), rules.opening_bracket),
    Clause("]", ("]",), (), rules.closing_bracket),
    Clause("{", ("{",), (), rules.opening_brace),
    Clause("}", ("}",), (), rules.closing_brace),
)
"""The order matters for the rules of one word."""


class Grammar(Rules):
    """The entries of a table of clauses, by word and by class of nodes.

    dropped: the words that no node retains.
    allowed: for each node class, by name, the arguments that may be set.
    shapes, variables: for some node classes, as in `Clause`.
    """

    def __init__(self, clauses: Iterable[Clause]) -> None:
        super().__init__()
        self.dropped: set[str] = set()
        self.allowed: dict[str, set[str]] = {}
        self.shapes: dict[str, Shape] = {}
        self.variables: dict[str, tuple[str, ...] | None] = {}
        for clause in clauses:
            self._add(clause)

    def _add(self, clause: Clause) -> None:
        self.dropped.update(clause.dropped)
        self.not_called.update(clause.not_called)
        self.not_called_after.update(clause.not_called_after)
        self.shapes.update(clause.shapes)
        self.variables.update(clause.variables)
        for name, arguments in clause.nodes.items():
            self.allowed.setdefault(name, set()).update(arguments.split())
        if clause.rule is not None:
            inside = frozenset(clause.inside) or None
            for word in clause.begins:
                self.by_word.setdefault(word, []).append((inside, clause.rule))


GRAMMAR = Grammar(CLAUSES)
