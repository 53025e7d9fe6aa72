"""A webhook receiver in a process of its own: `python -m tests.sinks.receiver [--port N]`.

Prints its port, keeps every request as it came, and answers 204, or what it was told to. It reads bytes and
nothing of the code under test. The routes under /control are for the test; it ends when its input does.
"""

import argparse
import asyncio
import json
import sys
from base64 import b64encode
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Final

BODY_BYTES_MAX: Final = 64 * 2**20
Answer = dict[str, Any]
"""`status`, `headers` and `body`, or `what` goes wrong: cut, silent, held, drip, garbage.

With `room`, it is for that room alone.
"""


@dataclass
class Request:
    """A request as it came."""

    connection: int
    path: str
    head: str
    """Request line and headers, each byte a character."""
    body: str
    """In base64."""
    answer: int
    """The status that was meant for it; 0 for none."""


class Receiver:
    """Keeps requests and answers them."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._answers: deque[Answer] = deque()
        self._always: Answer = {"status": 204}
        self._connections = 0
        self._release = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._keeps = True
        self._open = asyncio.Event()
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        try:
            while await self._exchange(connection, reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _exchange(
        self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        path = lines[0].split(" ")[1]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if path.startswith("/control/"):
            await _give(writer, {"status": 200, "body": json.dumps(await self._control(path, body))})
            return True
        answer = self._next(body)
        if self._keeps:
            status = answer.get("status", 0)
            self._requests.append(Request(connection, path, head, b64encode(body).decode(), status))
        async with self._arrived:
            self._arrived.notify_all()
        await self._open.wait()
        return await self._answer(answer, reader, writer)

    def _next(self, body: bytes) -> Answer:
        """The first answer that is for this request."""
        for answer in self._answers:
            if "room" not in answer or answer["room"] == json.loads(body)["partitionkey"]:
                self._answers.remove(answer)
                return answer
        return self._always

    async def _answer(
        self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        match answer.get("what"):
            case None:
                await _give(writer, answer)
            case "held":
                await self._release.wait()
                await _give(writer, answer | {"status": 204})
            case "silent":
                await reader.read()
                return False
            case "drip":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nsome")
                await writer.drain()
                await reader.read()
                return False
            case "garbage":
                writer.write(b"\x00\xff this is not HTTP\r\n\r\n")
                return False
            case _:
                return False
        return True

    async def _control(self, path: str, body: bytes) -> Any:
        match path.removeprefix("/control/").split("/"):
            case ["answers"]:
                self._answers.extend(json.loads(body))
            case ["always"]:
                self._always = json.loads(body)
            case ["release"]:
                self._release.set()
            case ["hold"]:
                self._open.clear()
            case ["let_go"]:
                self._open.set()
            case ["count"]:
                self._keeps = False
            case ["requests", number]:
                async with self._arrived:
                    await self._arrived.wait_for(lambda: len(self._requests) >= int(number))
                return [asdict(request) for request in self._requests]
        return {}


async def _give(writer: asyncio.StreamWriter, answer: Answer) -> None:
    body = answer.get("body", "").encode("utf-8", "surrogateescape")
    lines = [f"HTTP/1.1 {answer['status']} Answer", f"content-length: {len(body)}"]
    if answer["status"] == 204:
        lines.pop()
    lines += [f"{name}: {value}" for name, value in answer.get("headers", {}).items()]
    writer.write("\r\n".join([*lines, "\r\n"]).encode("latin-1") + body)
    await writer.drain()


async def serve(port: int) -> None:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", port, limit=BODY_BYTES_MAX)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
