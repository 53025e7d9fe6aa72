"""`reprise pull` mirrors a room exactly, though calls fail and both sides are killed again and again.

Small numbers, or 50 sessions of 200 messages with REPRISE_LONG=1.
"""

import os
import random
import subprocess
import sys
from itertools import islice

from application.aggregates import change
from domain.backoff import BACKOFF, reset
from infrastructure.main import open_ledger
from tests.remote.hosted import Hosted, Step
from tests.remote.running import RunningRemote, running_remote

IS_LONG = os.environ.get("REPRISE_LONG") == "1"
SESSIONS, MESSAGES = (50, 200) if IS_LONG else (8, 60)
KILLS = 12 if IS_LONG else 5
RUNS_MAX = 100
ROOM = "room-1"
FILLED: Step = {"do": "fill", "room": ROOM, "sessions": SESSIONS, "messages": MESSAGES}
FAULTS: tuple[Step, ...] = (
    {"do": "fail", "share": 0.03, "seed": 1, "what": "status", "status": 502},
    {"do": "fail", "share": 0.03, "seed": 2, "what": "cut"},
    {"do": "fail", "share": 0.03, "seed": 3, "what": "cut_body"},
    {"do": "fail", "share": 0.03, "seed": 4, "what": "garbage"},
    {"do": "fail", "share": 0.03, "seed": 5, "what": "html", "route": "messages"},
    {"do": "fail", "share": 0.03, "seed": 6, "what": "truncated", "route": "messages"},
)


def pulling(url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.command", "--db", url, "pull", ROOM, "--once"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def run_and_kill(url: str, remote: RunningRemote, lots: random.Random) -> None:
    """Start a pull and, behind a few of its lines, kill it or the remote; the remote comes back."""
    process = pulling(url)
    assert process.stdout is not None
    list(islice(process.stdout, lots.randrange(SESSIONS)))
    if lots.random() < 0.5:
        process.kill()
    else:
        remote.kill()
        remote.start()
    process.communicate()


def forgive(url: str) -> None:
    """Nobody waits here for a wait to end."""
    with open_ledger(url) as ledger:
        change(ledger.store, BACKOFF, ROOM, reset, ledger.clock.now_ms())


def test_a_room_is_mirrored_exactly_through_failures_and_kills(url: str) -> None:
    """The same ids, in the same order, with the same texts, each once."""
    lots = random.Random("kills")
    with running_remote(FILLED, *FAULTS) as remote:
        track = [sys.executable, "-m", "tests.cli.command", "--db", url, "rooms", "track", ROOM]
        subprocess.run([*track, "--remote", remote.url], check=True, stdout=subprocess.DEVNULL)
        for _ in range(KILLS):
            run_and_kill(url, remote, lots)
            forgive(url)
        code, runs = -1, 0
        while code != 0 and runs < RUNS_MAX:
            process = pulling(url)
            _, err = process.communicate()
            code, runs = process.returncode, runs + 1
            assert code in (0, 5, 75), err
            forgive(url)
        assert code == 0, "it never came to an end"

    hosted = Hosted()
    hosted.take(FILLED)
    with open_ledger(url) as ledger:
        assert ledger.verify().ok
        for name, session in hosted.rooms[ROOM].sessions.items():
            page = ledger.messages(ROOM, name, limit=500).messages
            mirrored = sorted(page, key=lambda one: one.id)
            assert [one.message_id for one in mirrored] == list(session.messages)
            assert [one.payload for one in mirrored] == [
                one.row["payload"] for one in session.messages.values()
            ]
            topics = [event.topic for event in ledger.events(ROOM, name)]
            assert topics.count("session.message_added") == MESSAGES
