"""The example of docs/contributing.md: a setting."""

from __future__ import annotations

import pytest

import runnel
from runnel import settings
from runnel.settings import Setting, SettingScope

PREVIEW_ROWS = Setting(
    "preview_rows",
    SettingScope.SESSION,
    20,
    settings._integer(1, 1000),
    "a whole number from 1 to 1000",
    "the number of rows that a notebook shows of a result",
)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> runnel.Connection:
    """A connection that knows the setting: in the code, an entry of SETTINGS."""
    monkeypatch.setattr(settings, "SETTINGS", (*settings.SETTINGS, PREVIEW_ROWS))
    monkeypatch.setitem(settings._BY_NAME, "preview_rows", PREVIEW_ROWS)
    return runnel.connect()


def test_preview_rows(connection: runnel.Connection) -> None:
    with connection:
        assert connection.execute("SHOW preview_rows").fetchone() == ("20",)
        connection.execute("SET preview_rows = 5")
        assert connection.execute("SHOW preview_rows").fetchone() == ("5",)
        with pytest.raises(runnel.ProgrammingError, match="preview_rows") as error:
            connection.execute("SET preview_rows = 0")
        assert "a whole number from 1 to 1000" in str(error.value)
    with runnel.connect(preview_rows=7) as other:
        assert other.execute("SHOW preview_rows").fetchone() == ("7",)
