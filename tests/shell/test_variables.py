"""Variables, conditions, and commands of psql and of DuckDB's command line in scripts."""

from __future__ import annotations

import pytest

from runnel.shell.commands.absent import ABSENT
from runnel.shell.commands.table import ALIASES, COMMANDS
from runnel.shell.conditions import truth
from runnel.shell.variables import interpolated
from tests.shell.conftest import RunScript


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT :n", "SELECT 5"),
        ("SELECT :'s', :\"s\"", "SELECT 'it''s', \"it's\""),
        ("SELECT ':n', \":n\", $$:n$$, E'\\':n' -- :n", None),
        ("SELECT 1::n, f(a := n) /* :n */", None),
        ("SELECT :unknown, :'unknown', a[1:n]", "SELECT :unknown, :'unknown', a[1:n]"),
        ("SELECT a[1:n] FROM :s", "SELECT a[1:n] FROM it's"),
        ("SELECT :{?n}, :{?m}", "SELECT TRUE, FALSE"),
    ],
)
def test_interpolation(text: str, expected: str | None) -> None:
    # As in psql, a name of a variable after a colon is one, also in a slice.
    expected = (expected or text).replace("a[1:n]", "a[15]")
    assert interpolated(text, {"n": "5", "s": "it's"}) == expected


@pytest.mark.parametrize(
    ("script", "out"),
    [
        ("\\set n 5\n\\set t 'a b'\nSELECT :n + 1, :'t';\n\\echo :t :n\n", "6|a b\na b 5\n"),
        ("\\set n 5\n\\set m :n 6\n\\set\n", "m = '56'\nn = '5'\n"),
        ("\\set t 'a  b'\n\\set u :t\nSELECT :'u';\n\\unset u\n\\echo :u\n", "a  b\n:u\n"),
        ("\\set q 'SELECT 1'\n:q;\n", "1\n"),
        ("SELECT 7 AS a, 'x' AS b, NULL AS c \\gset\n\\echo :a :b :c\n", "7 x :c\n"),
        ("SELECT 7 AS a,\n 8 AS b\n\\gset p_\nSELECT :p_a * :p_b;\n", "56\n"),
        ("SELECT 'SELECT 1', 'SELECT 2' \\gexec\n", "1\n2\n"),
        ("SELECT 1 AS a, 'x' AS b \\gdesc\n", None),
        ("\\set x on\n\\if :x\nSELECT 1;\n\\else\nSELECT wrong;\n\\endif\nSELECT 3;\n", "1\n3\n"),
        ("\\if false\n\\if true\nSELECT x;\n\\endif\n\\quit\n\\elif 1\nSELECT 2;\n\\elif true\n"
         "SELECT 4;\n\\else\nSELECT 5;\n\\endif\n", "2\n"),
        ("\\if :{?no}\n\\o no/f\n\\else\n\\echo no\n\\endif\n", "no\n"),
        ("SELECT 2 > 1 AS bigger \\gset\n\\if :bigger\n\\qecho yes\n\\endif\n", "yes\n"),
        (".once f.txt\nSELECT 1;\nSELECT 2;\n\\! cat f.txt >&2\n", "2\n"),
        (".output f.txt\nSELECT 1;\n\\qecho a\n\\echo b\n.output stdout\nSELECT 2;\n", "b\n2\n"),
        ("SELECT 1;\nQUIT;\nSELECT wrong;\n", "1\n"),
        ("SELECT 1; exit;\nSELECT wrong;\n", "1\n"),
        ("quit\nSELECT wrong;\n", ""),
        ("CLEAR;\nSELECT 1 AS quit;\n", "1\n"),
        (".echo on\nSELECT 1;\n", "SELECT 1;\n1\n"),
        ("SELECT 1;\n\\p\n.print 'a b'\n", "1\nSELECT 1;\na b\n"),
        ("\\dt+\n\\dtS\n\\l+\n.databases\n", "runnel\nrunnel\n"),
        ("\\set ECHO all\n\\set ON_ERROR_STOP off\nSELECT 1;\n", "SELECT 1;\n1\n"),
        ("\\H\nSELECT 1;\n\\H\n", "<table>\n<tr><td>1</td></tr>\n</table>\n"),
        ("\\f ,\nSELECT 1, 2;\n", "1,2\n"),
        ("\\getenv home NO_SUCH_VARIABLE\n\\echo :home\n\\cd /\n\\! pwd >&2\n", ":home\n"),
    ],
)  # fmt: skip
def test_a_script(run_script: RunScript, script: str, out: str | None) -> None:
    status, shown, err = run_script(script)
    assert status == 0, err
    assert out is None or shown == out


def test_help_is_a_statement(run_script: RunScript) -> None:
    assert "\\gset [PREFIX]" in run_script("HELP;\n")[1]


def test_variables_of_the_command(run_script: RunScript) -> None:
    assert run_script("SELECT :'a', :b;\n", "-v", "a=x y", "-vb=2")[1] == "x y|2\n"
    status, out, _ = run_script("SELECT x;\nSELECT 2;\n", "-v", "ON_ERROR_STOP=0")
    assert (status, out) == (1, "2\n")


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("\\set a-b 1\n", '"a-b" is not the name of a variable'),
        ("\\gset\n", "\\gset ends a statement"),
        ("SELECT 1 WHERE false \\gset\n", "needs one row, and the statement returned no row"),
        ("SELECT * FROM range(3) \\gset\n", "the statement returned more than one row"),
        ("CREATE TABLE t (a INT) \\gexec\n", "\\gexec needs a query"),
        ("\\if maybe\n\\endif\n", '"maybe" is no condition'),
        ("\\endif\n", "\\endif without \\if"),
        ("\\if 1\n\\else\n\\else\n", "\\else after \\else"),
        ("\\if 1\nSELECT 1;\n", "\\if without \\endif"),
        ("\\dp\n", 'the command "\\dp" is not supported\nHINT: there are no users'),
        ("\\dS+ absent\n", '"absent" not found'),
        ("\\dx+\n", 'the command "\\dx+" is not supported'),
        ("\\C title\n", 'the command "\\C" is not supported'),
        ("SELECT 1 \\crosstabview\n", 'the command "\\crosstabview" is not supported'),
        ("\\o |cat\n", "\\o needs one file"),
        (".once\n", ".once needs one file"),
        ("\\cd no/folder\n", '"no/folder" is not opened'),
    ],
)
def test_an_error(run_script: RunScript, script: str, error: str) -> None:
    status, _, err = run_script(script)
    assert status == 1 and error in err


def test_a_name_is_either_a_command_or_absent() -> None:
    assert not {*ABSENT} & {*COMMANDS, *ALIASES}
    assert not {*COMMANDS} & {*ALIASES}
    assert {*ALIASES.values()} <= {*COMMANDS}


@pytest.mark.parametrize("text", ["true", "T", "on", "YES", "y", "1"])
def test_true_and_its_opposite(text: str) -> None:
    opposite = {"true": "f", "T": "FALSE", "on": "off", "YES": "no", "y": "n", "1": "0"}[text]
    assert truth(text) and not truth(opposite)
