"""The HTTP client that pulls and deliveries share, over real connections."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from application.remote import Failure, FailureKind
from infrastructure.addresses import AddressPolicy
from infrastructure.http_client import HttpClient, Reply

HERE = AddressPolicy(allows_loopback=True)


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent; closes the connection on `/cut`."""

    protocol_version = "HTTP/1.1"
    got: list[tuple[str, str, bytes]]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.got.append((self.command, self.path, body))
        if self.path == "/cut":
            self.close_connection = True
            return
        self.send_response(int(self.path[1:]))
        self.send_header("x-topic", self.headers.get("x-topic", ""))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815  (the library's names)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's name)
        pass


@contextmanager
def echo() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    got: list[tuple[str, str, bytes]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Echo", (Echo,), {"got": got})) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


def send(method: str, url: str, content: bytes = b"", policy: AddressPolicy = HERE) -> Reply | Failure:
    async def main() -> Reply | Failure:
        async with HttpClient(policy) as client:
            return await client.send(method, url, {"X-Topic": "tides"}, content)

    return asyncio.run(main())


def test_a_call_carries_headers_and_content_and_the_reply_does_too() -> None:
    with echo() as (url, got):
        reply = send("POST", f"{url}/200", b"high water")

    assert isinstance(reply, Reply)
    assert (reply.status, reply.body, reply.headers["x-topic"]) == (200, b"high water", "tides")
    assert got == [("POST", "/200", b"high water")]


@pytest.mark.parametrize("status", [302, 410, 503])
def test_of_what_is_no_success_only_status_and_headers_are_read(status: int) -> None:
    with echo() as (url, _):
        reply = send("POST", f"{url}/{status}", b"somebody else's text")

    assert isinstance(reply, Reply)
    assert (reply.status, reply.is_success, reply.body) == (status, False, b"")
    assert reply.headers["x-topic"] == "tides"


@pytest.mark.parametrize(("method", "calls"), [("GET", 2), ("POST", 1)])
def test_only_what_changes_nothing_is_sent_again(method: str, calls: int) -> None:
    """B3: a POST whose connection broke may have been taken, so whoever sent it decides."""
    with echo() as (url, got):
        answer = send(method, f"{url}/cut")

    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.TRANSPORT
    assert len(got) == calls


def test_without_permission_not_even_this_machine_is_called() -> None:
    with echo() as (url, got):
        answer = send("POST", f"{url}/200", b"{}", AddressPolicy())

    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.REFUSED_ADDRESS
    assert got == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://", "http://[::1", "http://h:x/", "nowhere"])
def test_what_cannot_be_called_is_malformed(url: str) -> None:
    answer = send("POST", url)

    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.MALFORMED
