"""The port of remotes without a network: the reference remote's record, read in this process."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from application.remote import AgentsPage, Failure, FailureKind, MessagesPage, Remote, failure
from domain.ids import RemoteCursor, RoomId, SessionId
from infrastructure.remote_pages import NotAPage, read_agents, read_messages
from infrastructure.retry_after import retry_after_s
from tests.remote.faults import Call, Faults
from tests.remote.hosted import Hosted, Step

_Page = TypeVar("_Page", AgentsPage, MessagesPage)

KINDS: Final = {
    "silent": FailureKind.TIMEOUT,
    "stuck": FailureKind.TIMEOUT,
    "drip": FailureKind.TIMEOUT,
    "cut": FailureKind.TRANSPORT,
    "cut_body": FailureKind.TRANSPORT,
    "garbage": FailureKind.TRANSPORT,
    "large": FailureKind.TOO_LARGE,
    "bomb": FailureKind.TOO_LARGE,
    "html": FailureKind.PROTOCOL,
    "truncated": FailureKind.PROTOCOL,
    "packed": FailureKind.PROTOCOL,
    "canceled": FailureKind.CANCELED,
    "malformed": FailureKind.MALFORMED,
    "refused_address": FailureKind.REFUSED_ADDRESS,
}
"""What each fault looks like to the one who calls; the last three happen without a remote."""


class FakeRemoteActivity:
    """Serves one remote, whatever the URL; takes the same steps and keeps the same list of calls."""

    def __init__(self, *steps: Step, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.hosted = Hosted()
        self._faults = Faults()
        self._calls: list[Call] = []
        self._released = asyncio.Event()
        self.asked = asyncio.Event()
        """Set by each call; whoever waits for one clears it first."""
        self._now_ms = now_ms
        self.do(*steps)

    def do(self, *steps: Step) -> None:
        for step in steps:
            if step["do"] == "release":
                self._released.set()
            elif not self.hosted.take(step) and not self._faults.take(step):
                raise ValueError(f"unknown step: {step}")

    def calls(self, route: str | None = None) -> list[Call]:
        return [call for call in self._calls if route in (None, call.route)]

    async def list_agents(self, remote: Remote, room: RoomId) -> AgentsPage | Failure:
        call = self._called("agents", room, "", {})
        return await self._answer(call, self.hosted.agents(room), read_agents)

    async def list_messages(
        self, remote: Remote, room: RoomId, session: SessionId, after_version: RemoteCursor, limit: int
    ) -> MessagesPage | Failure:
        query = {"after_version": str(after_version), "limit": str(limit)}
        call = self._called("messages", room, session, query)
        page = self.hosted.messages(room, session, after_version, limit)
        return await self._answer(call, page, read_messages)

    def _called(self, route: str, room: str, session: str, query: Mapping[str, str]) -> Call:
        number = len(self._calls) + 1
        call = Call(number, self._now_ms(), route, "", room, session, query, {})
        self._calls.append(call)
        self.asked.set()
        return call

    async def _answer(self, call: Call, page: str | None, read: Callable[[bytes], _Page]) -> _Page | Failure:
        fault = self._faults.of(call) or {"what": "" if page is not None else "status", "status": 404}
        match fault["what"]:
            case "status":
                return self._refused(fault)
            case "body":
                page = fault["body"]
            case "hold":
                await self._released.wait()
            case what if what in KINDS:
                return failure(KINDS[what], f"the remote was {what}")
        try:
            return read((page or "").encode("utf-8", "surrogateescape"))
        except NotAPage as error:
            return failure(FailureKind.PROTOCOL, str(error))

    def _refused(self, fault: Mapping[str, Any]) -> Failure:
        status = fault["status"]
        wait_s = retry_after_s(fault.get("headers", {}).get("retry-after"), self._now_ms())
        return failure(FailureKind.STATUS, f"the remote answered {status}", status, wait_s)
