"""A line to the PostgreSQL server that a test can cut at a given word."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from urllib.parse import urlsplit

import psycopg

from tests.postgres import SERVER

CHUNK_BYTES = 65_536


class Line:
    """Passes bytes on between clients and the server, unless a word comes by at which it is to be cut."""

    def __init__(self) -> None:
        with psycopg.connect(SERVER) as connection:
            self._server = (connection.info.host, connection.info.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = Lock()
        self._asked: list[bytes] = []
        self._told: list[bytes] = []
        self._open: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """An address of a store, by way of this line; in plain, so that words can be read."""
        port = self._listener.getsockname()[1]
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        there = f"{user}@127.0.0.1:{port}" if user else f"127.0.0.1:{port}"
        return parts._replace(netloc=there).geturl() + "&sslmode=disable&gssencmode=disable"

    def cut_when_asked(self, word: bytes, times: int = 1) -> None:
        """Cut before the server is sent this word, so often."""
        with self._lock:
            self._asked += [word] * times

    def cut_when_told(self, word: bytes, times: int = 1) -> None:
        """Cut when the server has sent this word, and the client has not had it yet."""
        with self._lock:
            self._told += [word] * times

    @property
    def is_uncut(self) -> bool:
        """Whether a cut is still to come."""
        return bool(self._asked or self._told)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:
                    client.close()
                    continue
                self._open += [client, server]
                for one, other, words in ((client, server, self._asked), (server, client, self._told)):
                    Thread(target=self._pass_on, args=(one, other, words), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, words: list[bytes]) -> None:
        with suppress(OSError):
            while chunk := one.recv(CHUNK_BYTES):
                with self._lock:
                    if words and words[0] in chunk:
                        words.pop(0)
                        break
                other.sendall(chunk)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            end.close()


@contextmanager
def line() -> Iterator[Line]:
    line = Line()
    try:
        yield line
    finally:
        line.close()
