"""A forked child has nothing of its parent's connections, and takes nothing from them. Each test
runs a program of its own: it is that which forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import runnel
from tests.effort import some

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

PRELUDE = """
import faulthandler, os, signal, subprocess, sys, threading, time
from pathlib import Path
import runnel

# What hangs says where, and ends.
faulthandler.register(signal.SIGALRM, chain=True)
os.register_at_fork(after_in_child=lambda: signal.alarm(30))
signal.alarm(90)

place = Path(sys.argv[1])


def opened():
    return runnel.connect(place / "data")


def with_map():
    connection = opened()
    options = "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
    connection.execute(
        "CREATE MAPPING IF NOT EXISTS m (__key BIGINT, this BIGINT) TYPE IMap " + options
    )
    return connection


def put(connection, keys):
    for key in keys:
        connection.execute("INSERT INTO m VALUES (?, ?)", (key, key))


def count(connection):
    return connection.execute("SELECT COUNT(*) FROM m").fetchone()[0]


def in_child(act, leave=sys.exit):
    pid = os.fork()
    if not pid:
        act()
        leave(7)
    return pid


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(*calls):
    for call in calls:
        try:
            call()
        except runnel.InterfaceError as error:
            assert "forked from" in error.message, error
        else:
            raise AssertionError("a call was answered")
"""


def run(program: str, *words: object) -> str:
    """What the program prints; it is to end well and to say nothing of errors."""
    command = [sys.executable, "-W", "error", "-c", PRELUDE + program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # DuckDB's binding counts what a child leaves alone as leaks.
    said = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("nanobind: ", "See https://nanobind", " - "))
    ]
    assert (done.returncode, said) == (0, []), done.stderr
    return done.stdout


EVERYTHING_OPEN = """
connection = with_map()
put(connection, range(5))
connection.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
connection.execute("INSERT INTO t VALUES (1)")
connection.execute(
    "CREATE JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(100)) WHERE v < 0"
)
job = connection.job("j")
endless = connection.execute("SELECT v FROM TABLE(GENERATE_STREAM(100000))")
endless.fetchone()
reader = connection.execute("SELECT v FROM TABLE(GENERATE_STREAM(100000))").fetch_record_batch()
reader.read_next_batch()
light = next(item for item in connection.jobs() if item.kind == "light")
ended_cursor = connection.execute("SELECT COUNT(*) FROM t")
idle = connection.cursor()
writer = connection.register_stream("s", {"a": "BIGINT"})


def child():
    refused(
        lambda: connection.execute("SELECT 1"),
        connection.cursor,
        connection.commit,
        connection.jobs,
        lambda: connection.job("j"),
        lambda: connection.register("x", None),
        lambda: connection.unregister("s"),
        lambda: connection.__enter__(),
        lambda: connection.drop_function("f"),
        lambda: endless.execute("SELECT 1"),
        endless.fetchone,
        endless.fetchall,
        endless.fetchmany,
        endless.cancel,
        endless.progress,
        endless.fetch_arrow_table,
        ended_cursor.fetchone,
        lambda: idle.executemany("SELECT 1", [()]),
        reader.read_next_batch,
        lambda: writer.write([(1,)]),
        lambda: writer.watermark(1),
        light.cancel,
        light.wait,
        light.join,
        light.metrics,
        job.suspend,
        job.resume,
        job.restart,
        job.cancel,
        job.wait,
        job.join,
        lambda: job.export_snapshot("x"),
    )
    assert connection.is_closed and writer.is_closed
    for closing in (endless.close, writer.close, connection.close):
        closing()  # as of what is closed
    own = runnel.connect()
    assert own.execute("SELECT SUM(v) FROM TABLE(GENERATE_SERIES(1, 10)) AS t(v)").fetchall() == [
        (55,)
    ]
    own.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
    own.execute("INSERT INTO t VALUES (1)")


before = sorted(path.name for path in place.rglob("*"))
assert ended(in_child(child)) == 7
assert sorted(path.name for path in place.rglob("*")) == before
assert endless.fetchone() is not None and job.status.value == "RUNNING"
put(connection, range(5, 10))
connection.execute("INSERT INTO t VALUES (2)")
assert count(connection) == 10
connection.close()
connection = opened()
print(
    count(connection),
    connection.execute("SELECT COUNT(*) FROM t").fetchone()[0],
    connection.job("j").status,
)
"""


def test_all_calls_are_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    assert run(EVERYTHING_OPEN, tmp_path).split() == ["10", "2", "RUNNING"]


ENDINGS = """
connection = with_map()
writer = connection.register_stream("s", {"a": "BIGINT"})
put(connection, range(3))

def nothing():
    pass

def fails():
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    raise ValueError("the child fails")

def forks_again():
    assert ended(in_child(lambda: refused(connection.cursor))) == 7
    refused(connection.cursor)

def execs():
    os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(7)"])

assert ended(in_child(nothing)) == 7
assert ended(in_child(nothing, os._exit)) == 7
assert ended(in_child(connection.close)) == 7
assert ended(in_child(forks_again)) == 7
assert ended(in_child(execs)) == 7
put(connection, range(3, 6))
assert ended(in_child(fails)) == 1
put(connection, range(6, 9))
for close_fds in (True, False):
    subprocess.run([sys.executable, "-c", ""], close_fds=close_fds, check=True)
put(connection, range(9, 10))
assert count(connection) == 10
connection.close()
print(count(opened()))
"""


def test_children_end_in_all_ways(tmp_path: Path) -> None:
    assert run(ENDINGS, tmp_path) == "10\n"


MULTIPROCESSING = """
import multiprocessing

def work(number):
    import runnel
    own = runnel.connect()
    return own.execute("SELECT 2 * ?", (number,)).fetchone()[0]

if __name__ == "__main__":
    kind = sys.argv[2]
    connection = with_map()
    put(connection, range(5))
    with multiprocessing.get_context(kind).Pool(2) as pool:
        assert pool.map(work, range(4)) == [0, 2, 4, 6]
        put(connection, range(5, 10))
    connection.close()
    print(count(opened()))
"""


@pytest.mark.parametrize("kind", some(["fork", "spawn", "forkserver"], 3))
def test_pools_of_processes(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PRELUDE + MULTIPROCESSING)
    done = subprocess.run(
        [sys.executable, program, tmp_path, kind], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr


PRELOAD = """
connection = with_map()
put(connection, range(10))
read, write = os.pipe()


def serve():
    # As a worker of a web server whose parent has opened the connection: it lives until it is told
    # to end.
    os.close(write)
    os.read(read, 1)


workers = [in_child(serve) for _ in range(3)]
put(connection, range(10, 20))
os.close(write)
assert [ended(pid) for pid in workers] == [7, 7, 7]
put(connection, range(20, 30))
"""


@pytest.mark.parametrize(
    "end", some(["os.kill(os.getpid(), signal.SIGKILL)", "connection.close()", ""], 3)
)
def test_rows_written_while_workers_come_and_go_are_there(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", PRELUDE + PRELOAD + end, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if "SIGKILL" in end else 0), done.stderr
    with runnel.connect(tmp_path / "data") as connection:
        assert connection.execute("SELECT COUNT(*) FROM m").fetchall() == [(30,)]


ORPHAN = """
connection = with_map()
put(connection, range(10))
read, write = os.pipe()

def outlive():
    os.close(write)
    print(os.getpid(), flush=True)
    sys.stdin.read()

in_child(outlive)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_outlives_its_parent_does_not_keep_the_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PRELUDE + ORPHAN, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        with pytest.raises(runnel.OperationalError, match="is in use by another connection"):
            runnel.connect(tmp_path / "data")
        parent.kill()
        parent.wait(30)
        os.kill(child, 0)  # it lives
        with runnel.connect(tmp_path / "data") as connection:
            assert connection.execute("SELECT COUNT(*) FROM m").fetchall() == [(10,)]
        parent.stdin.close()


SPILLING = """
connection = runnel.connect(
    memory_limit="1MB", pushdown=False, cooperative_threads=1, temp_directory=str(place)
)
# Sorts in files, some rows of which wait in buffers of this process when it forks.
cursor = connection.execute(
    "SELECT v, CAST(v AS VARCHAR) || ' is a number' FROM TABLE(GENERATE_SERIES(1, 200000)) AS t(v) "
    "ORDER BY -v"
)
first = cursor.fetchmany(10)
folders = sorted(os.listdir(place))
children = [in_child(lambda: None) for _ in range(2)]
assert [ended(pid) for pid in children] == [7, 7]
assert sorted(os.listdir(place)) == folders
rows = first + cursor.fetchall()
assert [row[0] for row in rows] == list(range(200000, 0, -1))
assert all(text == f"{number} is a number" for number, text in rows)
print("sorted")
"""


def test_spilled_rows_are_the_parents(tmp_path: Path) -> None:
    assert run(SPILLING, tmp_path) == "sorted\n"


DUCKDB_SPILLING = """
connection = runnel.connect(temp_directory=str(place), fragment_rows=0)
connection.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
connection.execute("INSERT INTO t SELECT v FROM TABLE(GENERATE_SERIES(1, 300000)) AS s(v)")
cursor = connection.execute("SELECT a FROM t ORDER BY -a")
first = cursor.fetchone()
(folder,) = place.iterdir()
assert ended(in_child(lambda: refused(cursor.fetchone))) == 7
assert list(place.iterdir()) == [folder] and (folder / "owner.lock").exists()
assert [first, *cursor.fetchall()] == [(a,) for a in range(300000, 0, -1)]
connection.close()
print(list(place.iterdir()))
"""


def test_duckdb_goes_on_and_its_folder_stays(tmp_path: Path) -> None:
    assert run(DUCKDB_SPILLING, tmp_path) == "[]\n"


LEAVING = """
from runnel.base.forks import watch

class Item:
    def __init__(self):
        self.has_left = False
        watch(self)

    def leave(self):
        self.has_left = True
        raise RuntimeError("it can't leave")

items = [Item() for _ in range(5)]
def child():
    assert all(item.has_left for item in items), [item.has_left for item in items]

sys.unraisablehook = lambda *_: None
assert ended(in_child(child)) == 7
print("over")
"""


def test_one_that_fails_keeps_no_other_from_leaving(tmp_path: Path) -> None:
    assert run(LEAVING, tmp_path) == "over\n"


BUSY = """
import random

connection = with_map()
connection.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
connection.execute(
    "CREATE JOB j AS SINK INTO m SELECT v + 1000, v FROM TABLE(GENERATE_STREAM(1000)) WHERE v < 10"
)
writer = connection.register_stream("s", {"a": "BIGINT"})
over = threading.Event()
alone = threading.Event()  # no child lives: what the parent did meanwhile would only delay it
alone.set()
turns = threading.Semaphore(0)
failures = []


def busy(statement, *args):
    try:
        while not over.is_set():
            alone.wait()
            cursor = connection.execute(statement, args)
            if cursor.description:
                cursor.fetchall()
            turns.release()
    except BaseException as error:
        failures.append(error)


statements = [
    ("SINK INTO m VALUES (?, ?)", 1, 2),
    ("INSERT INTO t VALUES (?)", 1),
    ("SELECT COUNT(*), SUM(a) FROM t WHERE a > ?", 0),
    ("SELECT v, COUNT(*) FROM TABLE(GENERATE_SERIES(1, 20000)) AS t(v) GROUP BY v LIMIT ?", 3),
]
threads = [threading.Thread(target=busy, args=item, daemon=True) for item in statements]
for thread in threads:
    thread.start()


def child():
    refused(
        connection.cursor,
        connection.jobs,
        lambda: writer.write([(1,)]),
        lambda: connection.execute("SELECT 1"),
        lambda: connection.register("x", None),
    )
    writer.close()
    connection.close()
    own = runnel.connect()
    assert own.execute("SELECT SUM(v) FROM TABLE(GENERATE_SERIES(1, 10)) AS t(v)").fetchall() == [
        (55,)
    ]


for number in range(int(sys.argv[2])):
    for _ in range(random.randrange(8)):  # a fork may come at any time
        assert turns.acquire(timeout=20), failures
    # To end a child in an orderly way takes ten times as long as what it does.
    pid = in_child(child, os._exit if number % 4 else sys.exit)
    alone.clear()
    assert ended(pid) == 7, number
    alone.set()
over.set()
for thread in threads:
    thread.join()
assert not failures, failures
connection.close()
print("over")
"""


def test_a_fork_at_any_time_hangs_nobody(tmp_path: Path) -> None:
    assert run(BUSY, tmp_path, len(some(range(100), 5))) == "over\n"


REMOTE = """
connection = with_map()
put(connection, range(3))
from runnel.serving.server import Server

server = Server(connection, "a token of this test")
remote = runnel.connect(server.url, token="a token of this test")
cursor = remote.execute("SELECT v FROM TABLE(GENERATE_STREAM(100000))")
cursor.fetchone()
idle = remote.cursor()


def child():
    refused(
        lambda: remote.execute("SELECT 1"),
        remote.cursor,
        cursor.fetchone,
        cursor.cancel,
        lambda: idle.execute("SELECT 1"),
        lambda: remote.unregister("x"),
        lambda: remote.register("x", None),
    )
    cursor.close()
    remote.close()
    server.stop()


assert ended(in_child(child)) == 7
assert ended(in_child(lambda: None)) == 7
assert cursor.fetchone() is not None
assert remote.execute("SELECT COUNT(*) FROM m").fetchall() == [(3,)]
remote.close()
server.stop()
connection.close()
print("served")
"""


def test_connections_to_servers_and_servers(tmp_path: Path) -> None:
    assert run(REMOTE, tmp_path) == "served\n"
