"""Counts what becomes of calls to other hosts."""

from collections.abc import Callable

from application.remote import AgentsPage, Failure, MessagesPage, Remote, RemoteActivity
from domain.ids import RemoteCursor, RoomId, SessionId

OK = "ok"


class CountedActivity:
    """Other hosts, with somebody who is told of each call: `ok`, or the kind of its failure."""

    def __init__(self, activity: RemoteActivity, told: Callable[[str], None]) -> None:
        self._activity = activity
        self._told = told

    async def list_agents(self, remote: Remote, room: RoomId) -> AgentsPage | Failure:
        page = await self._activity.list_agents(remote, room)
        self._told(_outcome(page))
        return page

    async def list_messages(
        self, remote: Remote, room: RoomId, session: SessionId, after_version: RemoteCursor, limit: int
    ) -> MessagesPage | Failure:
        page = await self._activity.list_messages(remote, room, session, after_version, limit)
        self._told(_outcome(page))
        return page


def _outcome(page: AgentsPage | MessagesPage | Failure) -> str:
    return page.kind.value if isinstance(page, Failure) else OK
