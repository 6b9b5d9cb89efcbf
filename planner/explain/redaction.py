"""Redaction of the OPTIONS of mappings and data connections: values that grant access to other
systems are hidden.

information_schema redacts options for every caller. GET_DDL redacts them for callers within bounds,
but not for the owner, because its text creates the object again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from runnel.base.passwords import HIDDEN, without_password

_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|(access|account|private|api|shared)[._-]?key|key[._-]pem|\bsas\b|jaas",
    re.IGNORECASE,
)
"""Matches the names of options whose values grant access."""

_HARMLESS = frozenset(
    (
        "acks auto.offset.reset bootstrap.servers client.id compression.type enable.idempotence "
        "group.id isolation.level linger.ms max.poll.records metadata.broker.list sasl.mechanism "
        "sasl.mechanisms security.protocol session.timeout.ms "
        "spark.app.name spark.master transaction.timeout.ms"
    ).split()
)
"""Options of other libraries whose values are shown. Names of such options have dots (`storage.…`,
`sasl.…`, `catalog.…`), Runnel's options have none. Any other option with a dot is hidden, since it
may be a secret under a name that this module does not know."""


_CLIENT = "properties."
"""The beginning of the names that options of a client have in a table of Flink."""


def is_public(name: str, *, of_flink: bool = False) -> bool:
    """Whether the value of an option may be shown. `of_flink`: whether its name is Flink's, which
    has dots also where the option is Runnel's."""
    if of_flink and not name.lower().startswith(_CLIENT):
        return not _SECRET.search(name)
    name = name[len(_CLIENT) :] if of_flink else name
    return not _SECRET.search(name) and ("." not in name or name.lower() in _HARMLESS)


def without_secrets(options: Mapping[str, str], *, of_flink: bool = False) -> dict[str, str]:
    """The options, with secret values and passwords hidden; `of_flink`: as for `is_public`."""
    return {
        name: without_password(value) if is_public(name, of_flink=of_flink) else HIDDEN
        for name, value in options.items()
    }


def redacted_options(options: Mapping[str, str]) -> str:
    """`without_secrets` as a JSON object."""
    return json.dumps(without_secrets(options), ensure_ascii=False)
