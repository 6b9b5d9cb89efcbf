"""EXPLAIN in its three formats, for every stage and every kind of plan. (What the texts say of many
queries: tests/plans.)"""

from __future__ import annotations

import json

import pytest

from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Literal
from runnel.planner.environment import Environment
from runnel.planner.explain.explain import explain
from runnel.planner.explain.parts import plain
from runnel.planner.planner import plan
from runnel.planner.plans import Plan, ShowPlan
from runnel.sqltypes import BIGINT, INTEGER
from tests.sample_tables import sample_snapshot

JOIN = (
    "SELECT t.ticker, c.name FROM trades t JOIN companies c ON t.ticker = c.__key "
    "WHERE t.quantity > 1"
)


def no_files(*arguments: object) -> object:
    raise AssertionError("no file is read in planning tests")


def planned(sql: str) -> Plan:
    types = (BIGINT,) * sql.count("?")
    return plan(sql, sample_snapshot(), types, Environment(file_table=no_files))


def test_text_is_an_indented_tree() -> None:
    assert explain(
        planned("SELECT ticker FROM trades WHERE quantity > 1 LIMIT 3"), "physical", "text"
    ) == [
        "Limit (count: 3)  [~3 rows]",
        (
            "  Scan trades (read: ticker, quantity; where: quantity > 1; columns: "
            "ticker)  [~2500 rows]"
        ),
    ]


HEADINGS = ["Logical plan", "Physical plan", "DAG (on one member: this process)"]


def test_all_stages_come_one_after_the_other() -> None:
    lines = explain(planned(JOIN), "all", "text")
    assert [line for line in lines if line in HEADINGS] == HEADINGS
    assert lines[lines.index(HEADINGS[-1]) - 1] == ""


def test_a_dag_names_vertices_processors_and_edges() -> None:
    lines = explain(planned(JOIN), "dag", "text", parallelism=2)
    assert lines[:5] == [
        "scan companies, as many processors as there are partitions",
        "scan trades, as many processors as there are partitions",
        "join, 2 processors",
        "  <- scan companies: broadcast, priority 0",
        "  <- scan trades: isolated, priority 1",
    ]


def test_dot_is_one_graph() -> None:
    for stage in ("logical", "physical", "dag", "all"):
        lines = explain(planned(JOIN), stage, "dot")
        assert lines[0] == "digraph plan {"
        assert lines[-1] == "}"
        text = "\n".join(lines)
        assert text.count("{") == text.count("}")
        assert text.count('"') % 2 == 0
    assert '  "scan trades" -> "join" [label="unicast, priority 1"];' in explain(
        planned(JOIN), "dag", "dot"
    )


def test_dot_escapes_what_the_query_quotes() -> None:
    lines = explain(
        planned("""SELECT ticker FROM trades WHERE ticker = 'a"\\'"""), "logical", "dot"
    )
    assert any("""where: ticker = 'a\\"\\\\'""" in line for line in lines)


def test_json_can_be_read_back() -> None:
    tree = json.loads("\n".join(explain(planned(JOIN), "physical", "json")))
    join = tree["inputs"][0] if "inputs" in tree and tree["node"] == "Calc" else tree
    assert join["node"] == "Inner join by hash"
    assert join["on"] == "ticker = __key"
    assert [item["node"] for item in join["inputs"]] == ["Scan trades", "Scan companies"]
    assert join["inputs"][1]["rows"] == 100
    dag = json.loads("\n".join(explain(planned(JOIN), "dag", "json")))
    assert {"name": "join", "parallelism": 1} in dag["vertices"]
    assert {edge["target"] for edge in dag["edges"]} >= {"join", "result"}
    everything = json.loads("\n".join(explain(planned(JOIN), "all", "json")))
    assert list(everything) == ["logical", "physical", "dag"]


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        (
            "SELECT * FROM companies WHERE __key = 'A'",
            "Get from companies by key, without a job (key: __key = 'A'; columns: ",
        ),
        (
            "SINK INTO trades (__key, ticker) VALUES (?, 'A')",
            "Sink trades by key, without a job (rows: 1; columns: ",
        ),
        (
            "DELETE FROM trades WHERE __key = ?",
            "Delete trades by key, without a job (key: __key = ?0)",
        ),
        ("DELETE FROM trades", "Clear trades, without a job"),
    ],
)
def test_plans_without_a_job_are_one_line(sql: str, line: str) -> None:
    for stage in ("physical", "dag"):
        lines = explain(planned(sql), stage, "text")
        assert len(lines) == 1
        assert lines[0].startswith(line)


def test_a_write_is_the_root_of_its_query() -> None:
    lines = explain(
        planned("SINK INTO companies SELECT ticker, ticker, ticker, 1 FROM trades"),
        "logical",
        "text",
    )
    assert lines[0] == "Write companies (mode: sink; columns: __key, name, country, size)"
    assert lines[-1] == "    Scan trades (columns: ticker)"


def test_other_statements_have_no_plan_to_show() -> None:
    with pytest.raises(NotSupportedError, match="EXPLAIN is supported for queries and DML only"):
        explain(ShowPlan(what="mappings"), "all", "text")


def test_outer_brackets_are_dropped_only_where_they_are_a_pair() -> None:
    x = Column(index=0, name="x", type=INTEGER)
    one = Literal(value=1, type=INTEGER)
    total = build.call("add", [x, one])
    assert plain(build.call("gt", [total, one])).endswith("> 1")
    assert plain("(a) AND (b)") == "(a) AND (b)"
    assert plain("(a AND b)") == "a AND b"
    assert plain(x) == "x"
