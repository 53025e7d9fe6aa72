"""`./dev run` fills a store of the checkout with the sample, shows it, and serves it until Ctrl-C."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from infrastructure import demo
from tests.cli.conftest import SAMPLE, run
from tests.http.serving import WAIT_S, clean_environment


def test_it_shows_the_sample_and_where_it_lies(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        demo.show(SAMPLE, tmp_path / "shown")

        out = capfd.readouterr().out
        assert "Find naive times" in out
        assert "./dev reprise --db " in out
        deltas = (tmp_path / "shown" / "deltas.jsonl").read_text().splitlines()
        assert len({json.loads(line)["transactionId"] for line in deltas}) == len(deltas) == 6

    url = f"sqlite:///{tmp_path / 'shown' / 'sample.db'}"
    assert len(run("--db", url, "sessions", "list", "--json").lines) == 6
    assert run("--db", url, "sessions", "show", demo.INTERESTING).code == 0
    assert run("--db", url, "verify").code == 0


@pytest.mark.parametrize("is_taken", [False, True])
def test_it_ends_in_the_service_and_says_where(tmp_path: Path, home: Path, is_taken: bool) -> None:
    """At the usual port, or at another one when somebody has that."""
    script = (
        "import sys; from pathlib import Path; from infrastructure import demo\n"
        "demo.serve(demo.show(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        if not is_taken:
            taken.close()
        running = subprocess.Popen(
            [sys.executable, "-c", script, str(SAMPLE), str(tmp_path / "shown")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**clean_environment(), "HOME": str(home), "REPRISE_PORT": port},
        )
        assert running.stdout
        said = ""
        while not (found := re.search(r"The service is at (\S+),", said)):
            line = running.stdout.readline()
            assert line, said
            said += line
        ready = httpx.get(f"{found[1]}/readyz", timeout=WAIT_S)
        stream = httpx.Client(timeout=WAIT_S)
        with stream.stream("GET", f"{found[1]}/v1/stream?after=0") as answer:
            assert next(answer.iter_lines()).startswith("id: ")
        stream.close()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=WAIT_S)

    assert ready.json()["status"] == "ready"
    assert running.returncode == 0
    assert found[1].endswith(f":{port}") is not is_taken
