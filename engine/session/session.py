"""One client of a database, with its rights and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, ProgrammingError
from runnel.planner.cache import PlanKey

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.database import Database
    from runnel.planner.plans import Plan
    from runnel.settings import Settings
    from runnel.sqltypes import SqlType

SEARCH_PATH = ("public",)


@frozen
class Caller:
    """On whose behalf a statement runs.

    is_owner: whether it may change settings, and what others have defined.
    access: its bounds; None where it has none.
    """

    is_owner: bool = True
    access: Access | None = None

    @property
    def is_confined(self) -> bool:
        return self.access is not None

    def require_owner(self, what: str, hint: str | None = None) -> None:
        """ProgrammingError where it isn't the owner: `what` (a plural) is the owner's."""
        if not self.is_owner:
            raise ProgrammingError(
                f"{what} are the owner's",
                code=ErrorCode.NOT_ALLOWED,
                hint=hint or "connect with the owner's token",
            )

    def require_no_bounds(self, what: str) -> None:
        """ProgrammingError where it has bounds: `what` (a plural) can't be kept within any."""
        if self.is_confined:
            raise ProgrammingError(
                f"{what} are for callers without bounds",
                code=ErrorCode.NOT_ALLOWED,
                hint=(
                    "the owner does it: with the owner's token, "
                    "or on a connection without allowed_paths"
                ),
            )

    def require_own(self, what: str, *, is_confined: bool) -> None:
        """ProgrammingError where `what` was made by a caller without bounds, and this one isn't the
        owner."""
        if not self.is_owner and not is_confined:
            raise ProgrammingError(
                f"{what} is the owner's",
                code=ErrorCode.NOT_ALLOWED,
                hint="you may read and write it; the owner may change it",
            )


OWNER = Caller()


class Session:
    """One client of a database. A local connection is one session, and so is a client of a server.

    database: the catalog, the connectors, the jobs and the cached plans, which sessions share.
    caller: the rights of the session's statements, to files among others.
    """

    __slots__ = ("caller", "database")

    def __init__(self, database: Database, caller: Caller) -> None:
        self.database = database
        self.caller = caller

    @classmethod
    def of_owner(cls, database: Database) -> Session:
        """The session of the database's owner, with the bounds of the connection."""
        access = database.access
        return cls(database, OWNER if access is None else Caller(True, access))

    @property
    def settings(self) -> Settings:
        """The settings of the session's statements. All sessions of a database share them."""
        return self.database.settings

    def plan_key(self, sql: str, types: tuple[SqlType, ...]) -> PlanKey:
        """The key of a statement's plan for arguments of these types."""
        return PlanKey(sql, SEARCH_PATH, types, self.caller.is_confined, self.settings.of_plans)

    def prepare(
        self, sql: str, types: tuple[SqlType, ...], check: Callable[[], None] | None = None
    ) -> Plan:
        """The plan of a statement: the cached one while the objects that it names are unchanged.

        `check` raises when planning should end.
        """
        database, key = self.database, self.plan_key(sql, types)
        snapshot = database.catalog.snapshot
        return database.plans.get(key, snapshot) or database.new_plan(key, snapshot, check)
