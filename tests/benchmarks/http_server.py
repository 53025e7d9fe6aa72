"""The service in a process of its own, on one core, for a load that comes from another.

Prints its port. `--without-store` answers every report at once, which shows what the rest costs.
"""

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn

from application.ports import Committed
from application.views import MessageReply, StateReply
from infrastructure.asynchronous import AsyncLedger
from infrastructure.collector import settle_in
from infrastructure.http.app import create_app
from infrastructure.main import open_ledger_async

BACKLOG = 512


class WithoutStore(AsyncLedger):
    """A ledger that takes reports for granted."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self.__dict__.update(ledger.__dict__)
        self._reply = MessageReply.model_validate(
            {
                "acceptedCount": 1,
                "latestVersion": 1,
                "outcomes": [{"part": "message", "id": "msg-1", "outcome": "applied"}],
                "transactionId": "00000000-0000-5000-8000-000000000000",
            }
        )

    async def report_state(self, *_: Any, **__: Any) -> StateReply:
        return StateReply(accepted=True, state_applied=True, last_event_at_unix_ms=0, message_version=0)

    def begin(self, _: Any) -> "asyncio.Future[Committed]":
        begun: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        begun.set_result(Committed(self._reply.to_dict()))
        return begun

    async def report_messages(self, *_: Any, **__: Any) -> MessageReply:
        return self._reply


async def _serve(url: str, *, with_store: bool) -> None:
    async with open_ledger_async(url) as ledger:
        app = create_app(ledger if with_store else WithoutStore(ledger))
        config = uvicorn.Config(app, http="httptools", log_level="warning", access_log=False)
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        listening.listen(BACKLOG)
        settle_in()
        print(listening.getsockname()[1], flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


def main(url: str, *options: str) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    asyncio.run(_serve(url, with_store="--without-store" not in options))


if __name__ == "__main__":
    main(*sys.argv[1:])
