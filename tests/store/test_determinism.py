"""The same log gives the same state in any process, whatever surrounds it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

from infrastructure.store.memory import MemoryDatabase
from tests.store.digest_process import digests
from tests.store.place import ROOM, Place, log_of

SURROUNDINGS = (
    ("0", "UTC", "C"),
    ("1", "Asia/Kolkata", "C"),
    ("2", "America/St_Johns", "tr_TR.UTF-8"),
    ("3", "UTC", "tr_TR.UTF-8"),
    ("4", "Asia/Kolkata", "tr_TR.UTF-8"),
)


def report_at_random(place: Place) -> None:
    """Reports about twenty sessions, among them trees, that come in no good order."""
    chance = Random(7)
    ledger = place.ledger()
    for _ in range(400):
        place.clock.now += chance.randrange(5_000)
        number = chance.randrange(20)
        turn = f"t-{chance.randrange(4)}"
        state: dict[str, Any] = {"occurredAtUnixMs": place.clock.now - chance.randrange(10_000)}
        if number % 4:
            root = f"ses-{number - number % 4}"
            state |= {"kind": "child", "rootAgentSessionId": root, "parentAgentSessionId": root}
        state["turn"] = {
            "turnId": turn,
            "phase": chance.choice(["submitted", "running", "waiting", "settled"]),
        }
        state["messages"] = [
            {
                "messageId": f"m-{chance.randrange(6)}",
                "turnId": turn,
                "role": chance.choice(["user", "assistant"]),
                "kind": chance.choice(["text", "tool_call"]),
                "payload": {"text": chance.choice(["İI", "ıi", "ß", "\ud800", "x" * chance.randrange(50)])},
            }
        ]
        asked = {"requestId": f"q-{chance.randrange(3)}", "turnId": turn, "kind": "approval"}
        state["interactionTransition"] = {**asked, "status": chance.choice(["pending", "answered"])}
        state["runtimeContextPatch"] = {"set": {chance.choice("abc"): chance.random()}}
        ledger.report_state({"state": state}, room=ROOM, session=f"ses-{number}")
        if chance.randrange(40) == 0:
            chance.choice([ledger.delete, ledger.restore])(ROOM, f"ses-{chance.randrange(20)}")
    ledger.close()


def test_a_rebuild_depends_on_no_hash_seed_time_zone_or_locale(file: Place, path: Path) -> None:
    report_at_random(file)
    store = file.store()
    assert store.verify().ok
    store.close()
    copied = path.with_name("copy.db")
    shutil.copy(path, copied)
    found = {digests(copied)}
    for seed, zone, locale in SURROUNDINGS:
        shutil.copy(path, copied)
        ran = subprocess.run(
            [sys.executable, "-m", "tests.store.digest_process", str(copied)],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale},
            check=True,
            capture_output=True,
            text=True,
        )
        found.add(ran.stdout.strip())
    assert len(found) == 1
    assert found.pop().endswith(" True")


def test_the_same_reports_make_the_same_log() -> None:
    """Chance is in the salts and the store id alone, and both are given here."""
    logs = []
    for _ in range(2):
        with patch("infrastructure.store.memory.uuid4", return_value=UUID(int=1)):
            database = MemoryDatabase()
        place = Place(lambda database=database: database)  # type: ignore[misc]
        report_at_random(place)
        logs.append(log_of(place.store()))
        place.close()
    assert logs[0] == logs[1]
    assert len(logs[0]) > 400
