"""The OPTIONS of mappings and data connections as they are shown: without the values that give
access to other systems.

information_schema shows them so to everyone, and GET_DDL to callers within bounds. To the owner
GET_DDL shows them whole, since its text is to create the object again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from runnel.errors import HIDDEN, without_password

_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|(access|account|private|api|shared)[._-]?key|key[._-]pem|\bsas\b|jaas",
    re.IGNORECASE,
)
"""What names of options have in them whose values give access."""

_HARMLESS = frozenset(
    (
        "acks auto.offset.reset bootstrap.servers client.id compression.type enable.idempotence "
        "group.id isolation.level linger.ms max.poll.records metadata.broker.list sasl.mechanism "
        "sasl.mechanisms security.protocol session.timeout.ms "
        "spark.app.name spark.master transaction.timeout.ms"
    ).split()
)
"""Options of other libraries whose values are shown. Names of these have dots (`storage.…`,
`sasl.…`, `catalog.…`); Runnel's own have none. Any other may hold a secret under a name that this
module doesn't know."""


def is_public(name: str) -> bool:
    """Whether the value of an option may be shown."""
    return not _SECRET.search(name) and ("." not in name or name.lower() in _HARMLESS)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """The options with their values as they may be shown."""
    return {
        name: without_password(value) if is_public(name) else HIDDEN
        for name, value in options.items()
    }


def redacted_options(options: Mapping[str, str]) -> str:
    """The same in JSON."""
    return json.dumps(without_secrets(options), ensure_ascii=False)
