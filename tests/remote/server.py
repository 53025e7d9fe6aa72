"""A remote in a process of its own: `python -m tests.remote.server [--port N] [--tls CERT KEY] STEPS`.

Prints its port, serves what the steps tell (`tests/remote/hosted.py`, `tests/remote/faults.py`), takes more
steps at `/control/do`, tells at `/control/calls` what it was asked, and ends when its input does.
"""

import argparse
import asyncio
import gzip
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import uvicorn
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

from tests.remote.faults import Call, Faults
from tests.remote.hosted import Hosted, Step

ROUTE: Final = re.compile(
    r"(?P<prefix>.*)/rooms/(?P<room>[^/]+)/agents/(?:list|sessions/(?P<session>[^/]+)/messages)"
)
JSON: Final = {"content-type": "application/json"}
HTML: Final = "<!doctype html><title>Sign in</title><p>Sign in to go on."


class Remote:
    """The ASGI application."""

    def __init__(self) -> None:
        self._hosted = Hosted()
        self._faults = Faults()
        self._calls: list[Call] = []
        self._released = asyncio.Event()

    def take(self, step: Step) -> None:
        if step["do"] == "release":
            self._released.set()
        elif not self._hosted.take(step) and not self._faults.take(step):
            raise ValueError(f"unknown step: {step}")

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        answer = Answer(receive, send)
        path = scope["raw_path"].decode()
        if path == "/control/do":
            for step in json.loads(await answer.read()):
                self.take(step)
            await answer.give(200, b"{}")
        elif path == "/control/calls":
            await answer.give(200, json.dumps([asdict(call) for call in self._calls]).encode())
        elif found := ROUTE.fullmatch(path):
            await self._serve(self._call(scope, found), answer)
        else:
            await answer.give(404, b"{}")

    def _call(self, scope: HTTPScope, found: re.Match[str]) -> Call:
        session = found["session"]
        call = Call(
            number=len(self._calls) + 1,
            at_ms=time.time_ns() // 1_000_000,
            route="agents" if session is None else "messages",
            prefix=found["prefix"],
            room=unquote(found["room"]),
            session=unquote(session or ""),
            query=dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
            headers={name.decode(): value.decode("latin-1") for name, value in scope["headers"]},
        )
        self._calls.append(call)
        return call

    async def _serve(self, call: Call, answer: "Answer") -> None:
        page = (
            self._hosted.agents(call.room)
            if call.route == "agents"
            else self._hosted.messages(call.room, call.session, call.after, call.limit)
        )
        body = (page or "{}").encode("utf-8", "surrogateescape")
        fault = self._faults.of(call)
        if fault is None:
            await answer.give(404 if page is None else 200, body)
        elif fault["what"] == "hold":
            await self._released.wait()
            await answer.give(200, body)
        else:
            await fail(fault, answer, body)


class Answer:
    """One answer, good or bad."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self._receive = receive
        self._send = send

    @property
    def connection(self) -> asyncio.Transport:
        """The connection itself: uvicorn's own part in the call holds it."""
        transport: asyncio.Transport = self._send.__self__.transport  # type: ignore[attr-defined]
        return transport

    async def read(self) -> bytes:
        body = b""
        while True:
            message = await self._receive()
            assert message["type"] == "http.request"
            body += message["body"]
            if not message["more_body"]:
                return body

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send(
            {"type": "http.response.start", "status": status, "headers": encoded, "trailers": False}
        )

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def give(self, status: int, body: bytes, headers: Mapping[str, str] = JSON) -> None:
        await self.begin(status, {**headers, "content-length": str(len(body))})
        await self.piece(body, more=False)

    async def wait_for_the_end(self) -> None:
        """Until the other side has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def fail(fault: Mapping[str, Any], answer: Answer, body: bytes) -> None:
    """Answer as a rule says; `body` is what a good answer would say."""
    half = body[: len(body) // 2]
    promise = {**JSON, "content-length": str(len(body))}
    match fault["what"]:
        case "status":
            await answer.give(fault["status"], b'{"error": {"code": "no"}}', JSON | fault.get("headers", {}))
        case "body":
            await answer.give(200, fault["body"].encode("utf-8", "surrogateescape"))
        case "html":
            await answer.give(200, HTML.encode(), {"content-type": "text/html"})
        case "truncated":
            await answer.give(200, half)
        case "gzip":
            await answer.give(200, gzip.compress(body), JSON | {"content-encoding": "gzip"})
        case "packed":
            await answer.give(200, body, JSON | {"content-encoding": fault["encoding"]})
        case "bomb":
            bomb = gzip.compress(bytes(fault["bytes"]))
            await answer.give(200, bomb, JSON | {"content-encoding": "gzip"})
        case "large":
            await answer.begin(200, JSON)
            await answer.piece(b" " * fault["bytes"])
            await answer.piece(body, more=False)
        case "silent":
            await answer.wait_for_the_end()
        case "stuck":
            await answer.begin(200, promise)
            await answer.piece(half)
            await answer.wait_for_the_end()
        case "drip":
            await answer.begin(200, promise)
            for byte in body[:-1]:
                await answer.piece(bytes([byte]))
                await asyncio.sleep(fault["every_s"])
            await answer.piece(body[-1:], more=False)
        case "cut":
            answer.connection.close()
            await answer.wait_for_the_end()
        case "cut_body":
            await answer.begin(200, promise)
            await answer.piece(half)
            answer.connection.close()
            await answer.wait_for_the_end()
        case "garbage":
            answer.connection.write(b"\x00\xff this is not HTTP\r\n\r\n")
            answer.connection.close()
            await answer.wait_for_the_end()
        case other:
            raise ValueError(f"unknown fault: {other}")


async def serve(port: int, steps: list[Step], tls: list[str] | None) -> None:
    remote = Remote()
    for step in steps:
        remote.take(step)
    # asyncio sends small pieces at once only on sockets that name their protocol.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    certificate, key = tls or (None, None)
    server = uvicorn.Server(
        uvicorn.Config(
            remote,
            lifespan="off",
            log_level="critical",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=0,
        )
    )
    print(listening.getsockname()[1], flush=True)  # noqa: T201

    def end_with_the_input() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True

    threading.Thread(target=end_with_the_input, daemon=True).start()
    await server.serve([listening])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("steps", type=json.loads)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.steps, arguments.tls))


if __name__ == "__main__":
    main()
