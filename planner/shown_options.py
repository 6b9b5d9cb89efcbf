"""The OPTIONS of mappings and data connections as information_schema shows them: without what opens doors. GET_DDL gives them
whole, since its text is to make the object again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from runnel.errors import HIDDEN, without_password

_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|(access|account|private|api|shared)[._-]?key|key[._-]pem|\bsas\b|jaas",
    re.IGNORECASE,
)
"""What names of options have in them whose values open doors."""


def shown_options(options: Mapping[str, str]) -> str:
    """The options in JSON."""
    shown = {name: HIDDEN if _SECRET.search(name) else without_password(value) for name, value in options.items()}
    return json.dumps(shown, ensure_ascii=False)
