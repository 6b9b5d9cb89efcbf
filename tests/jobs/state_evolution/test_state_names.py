"""Which state is whose after a change of a query: by meaning, and by the names that hints give."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runnel
from runnel import Connection
from runnel.dag import DAG
from runnel.named_jobs.state_evolution.compatibility import StateOutcome, state_outcomes
from runnel.named_jobs.state_evolution.recombination import fits, missing
from runnel.relation.state_identity import Form, StateSignature, StateWindows
from runnel.relation.streams import WindowKind, WindowShape
from tests.jobs.state_evolution.recombined import tumble
from tests.jobs.state_evolution.test_recombining import (
    PATIENCE,
    SCHEMA,
    at,
    explained,
    put,
    streaming,
)

COUNT = "SELECT {} window_end * 100, COUNT(*) FROM TABLE({}) GROUP BY window_end"
SUM = "SELECT {} window_end * 100 + 1, SUM(v) FROM TABLE({}) GROUP BY window_end"
TEN = tumble(10).sql()


def outcomes(lines: list[str]) -> dict[str, str]:
    """What becomes of each vertex, without sources and sinks."""
    found = [line.strip().split(": ", 1) for line in lines if not line.startswith("    -")]
    return {name: text for name, text in found if not name.startswith(("scan", "write"))}


@pytest.fixture
def counting() -> Iterator[Connection]:
    with streaming(1, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS SINK INTO m {COUNT.format('', TEN)}")
        put(connection, writer, at(1, 2))
        connection.execute("CREATE SNAPSHOT t FOR JOB j", timeout=PATIENCE)
        yield connection


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (COUNT.format("", TEN), {"accumulate": "kept", "combine": "kept"}),
        (
            f"{SUM.format('', TEN)} UNION ALL {COUNT.format('', TEN)}",
            {
                "accumulate 2": "kept (state of accumulate)",
                "combine 2": "kept (state of combine)",
                "accumulate": "starts empty",
                "combine": "starts empty",
            },
        ),
        (
            COUNT.format("/*+ STATE(clicks) */", TEN),
            {
                "accumulate clicks": "kept (state of accumulate)",
                "combine clicks": "kept (state of combine)",
            },
        ),
        (
            COUNT.format("/*+ state( Clicks ) */", tumble(5).sql()).replace("COUNT(*)", "SUM(v)"),
            {
                "accumulate": "dropped",
                "combine": "dropped",
                "accumulate clicks": "starts empty",
                "combine clicks": "starts empty",
            },
        ),
        (
            SUM.format("", TEN),
            {"accumulate and combine": "refused, as it computes SUM(v), where it was COUNT(*)"},
        ),
        (
            f"SELECT e, n FROM ({COUNT.format('/*+ STATE(a) */', TEN)}) AS t(e, n) "
            "WHERE n > (SELECT /*+ STATE(b) */ MAX(x) FROM (VALUES (0)) AS u(x))",
            {
                "accumulate a": "kept (state of accumulate)",
                "combine a": "kept (state of combine)",
                "aggregate b": "starts empty",
            },
        ),
    ],
)
def test_whose_state_is_whose(counting: Connection, query: str, expected: dict[str, str]) -> None:
    found = outcomes(explained(counting, f"SINK INTO m {query}"))
    assert {name: text for name, text in found.items() if not name.startswith("join")} == expected


def test_a_name_by_a_hint_is_kept_with_the_state() -> None:
    with streaming(2, columns="n") as (connection, writer):
        first = f"SINK INTO m {COUNT.format('/*+ STATE(a) */', TEN)}"
        connection.execute(f"CREATE JOB j AS {first}")
        put(connection, writer, at(1, 2))
        other = first.replace("STATE(a)", "STATE(b)")
        assert set(outcomes(explained(connection, other)).values()) == {"dropped", "starts empty"}
        assert set(outcomes(explained(connection, first.replace(TEN, tumble(5).sql())))) == {
            "accumulate a and combine a"
        }
        connection.execute(f"ALTER JOB j AS {other}", timeout=PATIENCE)
        put(connection, writer, at(3))
        assert outcomes(explained(connection, other)) == {
            "accumulate b": "kept",
            "combine b": "kept",
        }
        writer.close()
        connection.job("j").join(PATIENCE)
        assert connection.execute("SELECT __key, n FROM m").fetchall() == [(1000, 1)], (
            "it began without state"
        )


def test_a_limit_begins_again_under_another_name() -> None:
    with streaming(1, columns="n") as (connection, writer):
        first = "SINK INTO m SELECT {} ts, v FROM s LIMIT {}"
        connection.execute(f"CREATE JOB j AS {first.format('', 2)}")
        put(connection, writer, [(1, 1, 1)])
        with pytest.raises(runnel.OperationalError, match="its plan has changed") as caught:
            connection.execute(f"ALTER JOB j AS {first.format('', 3)}", timeout=PATIENCE)
        assert "STATE(name)" in str(caught.value.hint)
        named = first.format("/*+ STATE(a) */", 3)
        connection.execute(f"ALTER JOB j AS {named}", timeout=PATIENCE)
        writer.write([(2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 5)])
        writer.close()
        connection.job("j").join(PATIENCE)
        found = connection.execute("SELECT __key FROM m ORDER BY __key").fetchall()
        assert found == [(1,), (2,), (3,), (4,)], "three rows after the one that was counted before"


def test_a_name_added_to_a_limit_keeps_its_count() -> None:
    with streaming(1, columns="n") as (connection, writer):
        first = "SINK INTO m SELECT {} ts, v FROM s LIMIT 2"
        connection.execute(f"CREATE JOB j AS {first.format('')}")
        put(connection, writer, [(1, 1, 1)])
        connection.execute(f"ALTER JOB j AS {first.format('/*+ STATE(a) */')}", timeout=PATIENCE)
        writer.write([(2, 2, 2), (3, 3, 3)])
        writer.close()
        connection.job("j").join(PATIENCE)
        assert connection.execute("SELECT __key FROM m ORDER BY __key").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize(
    "hint", ["STATE", "STATE()", "STATE(2)", "STATE(a, b)", "STATE(a) STATE(b)"]
)
def test_hints_that_name_nothing(counting: Connection, hint: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match="the hint STATE has one name") as caught:
        counting.execute(f"ALTER JOB j AS SINK INTO m {COUNT.format(f'/*+ {hint} */', TEN)}")
    assert caught.value.position is not None


def test_other_comments_are_no_hints(counting: Connection) -> None:
    for comment in ("/* STATE(a) */", "/*+ BROADCAST(s) */", "-- + STATE(a)\n"):
        found = outcomes(explained(counting, f"SINK INTO m {COUNT.format(comment, TEN)}"))
        assert found == {"accumulate": "kept", "combine": "kept"}


def test_a_view_that_is_used_has_names_of_its_own(counting: Connection) -> None:
    inner = (
        f"SELECT /*+ STATE(inner_one) */ window_end AS e, COUNT(*) AS n FROM TABLE({TEN}) "
        "GROUP BY window_end"
    )
    counting.execute(f"CREATE VIEW counts AS {inner}")
    found = outcomes(
        explained(
            counting, "SINK INTO m SELECT /*+ STATE(outer_one) */ e, MAX(n) FROM counts GROUP BY e"
        )
    )
    assert found == {
        "accumulate inner_one": "kept (state of accumulate)",
        "combine inner_one": "kept (state of combine)",
        "aggregate outer_one": "starts empty",
    }


def test_a_common_table_has_a_name_of_its_own_or_none(counting: Connection) -> None:
    inner = f"SELECT {{}} window_end AS e, COUNT(*) AS n FROM TABLE({TEN}) GROUP BY window_end"
    for hint, names in (
        ("/*+ STATE(inner_one) */", ("accumulate inner_one", "combine inner_one")),
        ("", ("accumulate", "combine")),
    ):
        query = (
            f"WITH c AS ({inner.format(hint)}) SELECT /*+ STATE(outer_one) */ e, MAX(n), MIN(n) "
            "FROM c GROUP BY e"
        )
        found = outcomes(
            explained(counting, f"SINK INTO m SELECT e, a FROM ({query}) AS t(e, a, b)")
        )
        assert set(found) == {*names, "aggregate outer_one"}


def test_meanings_of_earlier_versions_are_texts() -> None:
    new = StateSignature(text="Aggregate (x)", keeps=True, same={"": "x"}).encode()
    assert [
        item.outcome
        for item in state_outcomes(["a"], {"a": "Aggregate (x)"}, {"a": new}, _alone("a"))
    ] == [StateOutcome.KEPT]
    assert [
        item.outcome
        for item in state_outcomes(["a"], {"a": "Aggregate (y)"}, {"a": new}, _alone("a"))
    ] == [StateOutcome.REFUSED]
    assert [item.outcome for item in state_outcomes(["a"], {}, {"a": new}, _alone("a"))] == [
        StateOutcome.REFUSED
    ]
    assert [item.outcome for item in state_outcomes(["a"], {"a": new}, {}, DAG())] == [
        StateOutcome.DROPPED
    ]


def test_words_for_people_in_a_fragment_do_not_matter() -> None:
    def fragment(notes: str, message: str = "it''s too large") -> str:
        sql = f"SELECT 'stopped by: x; sql: y', error('[data error] {message}')"
        text = f"Fragment on DuckDB ({notes}sql: {sql}) of BIGINT"
        return StateSignature(text=text, same={"": text}).encode()

    before = {
        "a": fragment(
            "only: k among the rows of the input; chosen for: groups; big; stopped by: a; "
        )
    }
    for notes in ("", "chosen for: joins; ", "differs: sums; stopped by: b; "):
        after = {
            "a": fragment(f"only: k among the rows of the input; {notes}", f"too large: {notes}")
        }
        assert [item.outcome for item in state_outcomes(["a"], before, after, _alone("a"))] == [
            StateOutcome.KEPT
        ]
    for other in (
        fragment("only: n among the rows of the input; "),
        fragment("").replace("SELECT", "VALUES"),
    ):
        assert [
            item.outcome for item in state_outcomes(["a"], before, {"a": other}, _alone("a"))
        ] == [StateOutcome.REFUSED]


def _alone(name: str) -> DAG:
    dag = DAG()
    dag.vertex(name, lambda: None)  # type: ignore[arg-type,return-value]
    return dag


def test_meanings_come_back_as_they_were() -> None:
    windows = StateWindows(
        shape=WindowShape(WindowKind.HOP, 20, 5, 1),
        is_integer=True,
        keys=("k BIGINT",),
        key_indexes=(-2, 0),
        bound="int64",
        lateness=3,
    )
    meaning = StateSignature(
        text="t",
        name="n",
        form=Form.FRAMES,
        keeps=True,
        same={"by": "k"},
        reads=("a",),
        watermarks={1: "a"},
        windows=windows,
    )
    assert StateSignature.decode(meaning.encode()) == meaning


def shapes() -> st.SearchStrategy[WindowShape]:
    small = st.integers(1, 9)
    return st.one_of(
        st.builds(
            lambda size, offset: WindowShape(WindowKind.TUMBLE, size, 0, offset), small, small
        ),
        st.builds(
            lambda step, more, offset: WindowShape(WindowKind.HOP, step + more, step, offset),
            small,
            small,
            small,
        ),
        st.builds(
            lambda step, n, offset: WindowShape(WindowKind.CUMULATE, step * n, step, offset),
            small,
            st.integers(1, 4),
            small,
        ),
    )


@settings(deadline=None)
@given(old=shapes(), new=shapes())
def test_what_is_said_of_frames_is_so(old: WindowShape, new: WindowShape) -> None:
    def steps(shape: WindowShape) -> int:
        return shape.step if shape.kind is WindowKind.HOP else shape.size

    def first_start(shape: WindowShape, watermark: int) -> int:
        start = (watermark - shape.offset) // steps(shape) * steps(shape) + shape.offset
        while start - steps(shape) + shape.size > watermark:
            start -= steps(shape)
        return start

    before, after = (StateWindows(shape=shape, is_integer=True) for shape in (old, new))
    assert missing(before, after) == max(
        first_start(old, m) - first_start(new, m) for m in range(lcm(steps(old), steps(new)))
    )

    def bounds(shape: WindowShape) -> set[int]:
        length = shape.size if shape.kind is WindowKind.TUMBLE else gcd(shape.size, shape.step)
        return {n for n in range(500) if (n - shape.offset) % length == 0}

    assert fits(old, new) == (bounds(new) <= bounds(old))


@pytest.mark.parametrize(
    "kept",
    [
        "SELECT s.ts * 100 + 1, s.v + b.v FROM s JOIN b ON s.ts BETWEEN b.ts - 2 AND b.ts",
        (
            "SELECT ts * 100 + 2, SUM(v) OVER (ORDER BY ts RANGE BETWEEN 20 PRECEDING AND CURRENT "
            "ROW) FROM s"
        ),
        (
            "SELECT window_end * 100 + 3, SUM(v) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 20)) "
            "GROUP BY window_end"
        ),
    ],
    ids=["join", "over", "group by"],
)
def test_state_goes_on_where_watermarks_have_other_numbers(kept: str) -> None:
    """What is read in front of it takes the first number."""
    with streaming(2, columns="n") as (connection, writer):
        others = {
            name: connection.register_stream(name, SCHEMA, time_column="ts", max_disorder=0)
            for name in ("b", "c")
        }
        connection.execute(f"CREATE JOB j AS SINK INTO m {kept}")
        put(connection, writer, [(0, 5, 1), (0, 9, 2)], has_others=True)
        if "b.ts" in kept:
            put(connection, others["b"], [(0, 6, 10)], has_others=True)
        first = (
            f"SELECT window_end * 100, COUNT(*) FROM TABLE({tumble(10).sql('c')}) "
            "GROUP BY window_end"
        )
        text = f"SINK INTO m {first} UNION ALL {kept}"
        assert not any(
            "dropped" in line or "refused" in line for line in explained(connection, text)
        )
        connection.execute(f"ALTER JOB j AS {text}", timeout=PATIENCE)
        put(connection, writer, [(0, 11, 3)], has_others=True)
        if "b.ts" in kept:
            others["b"].write([(0, 9, 20), (0, 12, 30)])
        others["c"].write([(0, 5, 1)])
        for each in (writer, *others.values()):
            each.close()
        connection.job("j").join(PATIENCE)
        found = dict(connection.execute("SELECT __key, n FROM m WHERE __key % 100 > 0").fetchall())
    expected = {
        "join": {501: 11, 901: 22, 1101: 33},
        "over": {502: 1, 902: 3, 1102: 6},
        "group by": {2003: 6},
    }
    assert found in expected.values()
    assert {key % 100 for key in found} == {1 if "JOIN" in kept else 2 if "OVER" in kept else 3}
