"""The service on a real socket, on a thread of its own."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from infrastructure.http.app import create_app
from infrastructure.http.settings import HttpSettings
from infrastructure.main import open_ledger_async


@contextmanager
def listening(url: str, settings: HttpSettings | None = None) -> Iterator[str]:
    """The address at which a service listens as long as the block runs."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # So that whoever is early waits.
    servers: list[uvicorn.Server] = []
    is_up = threading.Event()

    async def main() -> None:
        async with open_ledger_async(url) as ledger:
            config = uvicorn.Config(
                create_app(ledger, settings), http="httptools", log_level="critical", lifespan="off"
            )
            servers.append(uvicorn.Server(config))
            is_up.set()
            await servers[0].serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="service")
    thread.start()
    is_up.wait()
    host, port = listener.getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        servers[0].should_exit = True
        thread.join()
        listener.close()
