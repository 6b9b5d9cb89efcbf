"""A session at a pseudo-terminal: editing, completion, history, Ctrl-C, errors, the pager."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()=>][0-9A-B]?)")
PROMPT = "runnel>"
UP = "\x1b[A"


class Terminal:
    """A session. `command` types a line, and returns the text that the session printed before its
    next prompt."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "runnel", *arguments],
            cwd=str(folder),
            env={
                "HOME": str(folder),
                "XDG_STATE_HOME": str(folder / "state"),
                "LANG": "C.UTF-8",
                "PATH": "/usr/bin:/bin",
                "TERM": "xterm",
                "PAGER": "cat",
                # A pseudo-terminal does not answer the request for the position of the cursor.
                "PROMPT_TOOLKIT_NO_CPR": "1",
                **environment,
            },
            encoding="utf-8",
            codec_errors="replace",
            dimensions=(30, 100),
            timeout=30,
        )
        self.process.delaybeforesend = None

    def ready(self) -> str:
        """Waits for the line editor; returns the text before the prompt."""
        self.process.expect(re.escape("\x1b[?2004h"))
        text = str(self.process.before)
        self.process.expect(re.escape(PROMPT))
        return ESCAPES.sub("", text).replace("\r", "")

    def command(self, typed: str) -> str:
        self.process.send(f"{typed}\r")
        self.process.expect(re.escape("\x1b[?2004l"))
        return self.ready()

    def until(self, text: str) -> None:
        self.process.expect(re.escape(text))

    def leave(self) -> int | None:
        """Types Ctrl-D; returns the exit status."""
        self.process.sendeof()
        self.process.expect(pexpect.EOF)
        self.process.close()
        return self.process.exitstatus  # type: ignore[no-any-return]


Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Terminal] = []

    def begin(*arguments: str, **environment: str) -> Terminal:
        terminal = Terminal(tmp_path, *arguments, **environment)
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.process.close(force=True)


def test_a_session(start: Start, tmp_path: Path) -> None:
    terminal = start()
    assert "in memory" in terminal.ready()

    # Enter begins a line until the statement has its semicolon.
    terminal.process.send("SELECT ';' AS a,\r")
    terminal.until("...>")
    assert "│ ;       │       2 │" in terminal.command("2 AS b;")

    # A busy machine may show the progress before it.
    created = terminal.command("create table people (id int, full_name varchar);")
    assert created.splitlines()[-1].endswith("table people created")
    assert "1 row inserted" in terminal.command("insert into people values (1, 'Ann');")

    # Completion of a column, a table, an alias's column, a keyword, a function, a command.
    assert "│ Ann       │" in terminal.command("select full_\t from peo\t;")
    assert "│ Ann       │" in terminal.command("from people p sel\t p.full\t;")
    assert "│           1 │" in terminal.command("SELECT LEAS\t(1, 2);")
    out = terminal.command("\\d peo\t")
    assert "full_name" in out
    assert ".mode" in terminal.command(".hel\t")

    # An error has its caret; the session continues.
    out = terminal.command("SELECT id,\r  nme FROM people;")
    assert out.splitlines()[:3] == [
        'UndefinedColumn: column "nme" does not exist',
        "LINE 2:   nme FROM people",
        "          ^^^",
    ]

    # Several statements of one input; the first error ends it.
    out = terminal.command("SELECT 1 AS one; SELECT wrong; SELECT 3 AS three;")
    assert "one" in out and "wrong" in out and "three" not in out
    terminal.command(".mode csv")
    assert terminal.command("SELECT 1 AS one; SELECT 2 AS two;") == "one\n1\ntwo\n2\n"
    assert terminal.command(".mode") == "mode: csv\n"

    # History: the earlier input is edited and runs again; it is stored for the next session.
    assert terminal.command("SELECT 42 AS answer;") == "answer\n42\n"
    assert terminal.command(UP) == "answer\n42\n"
    assert "syntax error" in terminal.command("x ('password' = 'hidden');")
    assert terminal.leave() == 0
    history = tmp_path / "state" / "runnel" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "+SELECT 42 AS answer;" in history.read_text()
    assert "hidden" not in history.read_text()
    again = start()
    again.ready()
    assert "│      42 │" in again.command(UP)
    again.process.send(".quit\r")
    again.process.expect(pexpect.EOF)


def test_ctrl_c_ends_a_stream_and_the_session_is_alive(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.process.send("SELECT v FROM TABLE(GENERATE_STREAM(200));\r")
    terminal.until("Ctrl-C ends it")
    for number in range(3):
        terminal.until(f"│{number:7} │")
    terminal.process.sendintr()
    assert "ended by Ctrl-C" in terminal.ready()
    assert "│       7 │" in terminal.command("SELECT 7 AS seven;")

    # A query that ends, but runs for long.
    terminal.process.send("SELECT count(*) FROM TABLE(GENERATE_SERIES(1, 900000000000)) AS t(v);\r")
    terminal.until("generate_series: ")
    terminal.process.sendintr()
    assert "ended by Ctrl-C" in terminal.ready()

    # Ctrl-C at the prompt discards the input.
    terminal.process.send("SELECT wrong")
    terminal.until("wrong")
    terminal.process.sendintr()
    terminal.ready()
    assert "│       8 │" in terminal.command("SELECT 8 AS e;")
    assert terminal.leave() == 0


def test_watch_repeats_until_ctrl_c(start: Start) -> None:
    terminal = start()
    terminal.ready()
    terminal.process.send("\\watch 0.05 SELECT 7 AS seven\r")
    for _ in range(3):
        terminal.until("every 0.05 s: SELECT 7 AS seven")
        terminal.until("1 row")
    terminal.process.sendintr()
    assert "ended by Ctrl-C" in terminal.ready()
    assert "wrong" in terminal.command("\\watch 5 SELECT wrong")
    assert "0 rows" in terminal.command("\\dj")
    assert terminal.leave() == 0


def test_long_tables_are_paged(start: Start, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\necho "paged: $(wc -l)"\n')
    pager.chmod(0o755)
    terminal = start(PAGER=str(pager))
    terminal.ready()
    assert "paged: 106" in terminal.command("SELECT * FROM TABLE(GENERATE_SERIES(1, 100));")
    assert "paged" not in terminal.command("SELECT * FROM TABLE(GENERATE_SERIES(1, 10));")
    out = terminal.command("SELECT * FROM TABLE(GENERATE_SERIES(1, 2000));")
    assert "paged: 1006" in out
    terminal.command(".pager off")
    out = terminal.command("SELECT * FROM TABLE(GENERATE_SERIES(1, 2000));")
    assert "the first 1,000 rows; .maxrows 0 prints all" in out
    assert terminal.leave() == 0


def test_the_editor_runs_its_text(start: Start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/1/5/ "$1"\n')
    editor.chmod(0o755)
    terminal = start(EDITOR=str(editor))
    terminal.ready()
    terminal.command("SELECT 1 AS a;")
    assert "│       5 │" in terminal.command("\\e")
    assert terminal.leave() == 0


def test_a_prompt_without_the_extra(tmp_path: Path) -> None:
    """Lines by `input`; the hint names the extra."""
    program = (
        "import sys; sys.modules['prompt_toolkit'] = None; "
        "from runnel.shell.command import main; sys.exit(main([]))"
    )
    process = pexpect.spawn(
        sys.executable,
        ["-c", program],
        env={"HOME": str(tmp_path), "LANG": "C.UTF-8", "TERM": "dumb", "PATH": "/usr/bin:/bin"},
        encoding="utf-8",
        dimensions=(30, 100),
        timeout=30,
    )
    process.expect_exact("pip install 'runnel[shell]'")
    process.expect_exact("runnel> ")
    process.sendline("SELECT 5 AS a,")
    process.expect_exact("...> ")
    process.sendline("6 AS b;")
    process.expect_exact("│       5 │       6 │")
    process.expect_exact("runnel> ")
    process.sendline("SELECT v FROM TABLE(GENERATE_STREAM(100));")
    process.expect_exact("│      2 │")
    process.sendintr()
    process.expect_exact("ended by Ctrl-C")
    process.expect_exact("runnel> ")
    process.sendline("SELECT (")
    process.expect_exact("...> ")
    process.sendintr()
    process.expect_exact("runnel> ")
    process.sendeof()
    process.expect(pexpect.EOF)
    process.close()
    assert process.exitstatus == 0
    history = tmp_path / ".local" / "state" / "runnel" / "history"
    assert "6 AS b;" in history.read_text()
