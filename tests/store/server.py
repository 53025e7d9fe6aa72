"""A PostgreSQL server of a test's own, which it may stop and start."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
ACCOUNT = "postgres"
"""Who runs the server when root may not."""


class Server:
    """A cluster in a folder, on a port of its own."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._run("initdb", "--auth=trust", "--username=reprise", "--no-sync", "--encoding=UTF8")

    def url(self, database: str = "postgres", user: str = "reprise") -> str:
        return f"postgresql://{user}@127.0.0.1:{self._port}/{database}?sslmode=disable"

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self._run("pg_ctl", "--wait", "--log", str(self._folder / "log"), "--options", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "--wait", "--mode", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "--pgdata", str(self._folder / "data"), *arguments]
        if not os.geteuid():
            command = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


@contextmanager
def own_server() -> Iterator[Server]:
    """A server that is gone in the end; skips the test where none can be started."""
    programs = Path(found).parent if (found := shutil.which("pg_ctl")) else next(reversed(PROGRAMS), None)
    if programs is None:
        pytest.skip("no PostgreSQL server's programs here (initdb, pg_ctl)")
    with TemporaryDirectory() as name:
        folder = Path(name)
        if not os.geteuid():
            try:
                shutil.chown(folder, ACCOUNT, ACCOUNT)
            except LookupError:
                pytest.skip(f"a server does not run as root, and there is no account {ACCOUNT}")
        server = Server(programs, folder)
        server.start()
        try:
            yield server
        finally:
            with suppress(subprocess.CalledProcessError):
                server.stop("immediate")
