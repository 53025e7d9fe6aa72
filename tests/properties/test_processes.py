"""The same history gives the same bytes in any process (case H01)."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given, settings

from infrastructure.store.memory import MemoryDatabase
from tests.properties.histories import SESSIONS, Step, histories
from tests.properties.playing import SHARED, new_url, opened
from tests.properties.retelling import digests, write_down

ROOT = Path(__file__).parents[2]
HASH_SEEDS = range(5)
TIME_ZONES = ("UTC", "Asia/Kolkata", "America/St_Johns")
LOCALES = ("C", "tr_TR.UTF-8")
SESSIONS_MIN = 20


def some_histories() -> list[list[Step]]:
    told: list[list[Step]] = []

    @settings(max_examples=40)
    @given(histories())
    def note(history: list[Step]) -> None:
        told.append(history)

    note()
    return told


def start(file: Path, url: str, seed: int, zone: str, language: str) -> subprocess.Popen[bytes]:
    given_here = {"PYTHONHASHSEED": str(seed), "TZ": zone, "LC_ALL": language, "LANG": language}
    plain = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", "tests.properties.retelling", str(file), url]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **given_here, **plain}, stdout=subprocess.PIPE
    )


@pytest.mark.parametrize("kind", SHARED)
def test_a_history_gives_one_digest_whatever_the_hash_seed_the_time_zone_and_the_locale(
    kind: str, tmp_path: Path
) -> None:
    """In memory and in a database, in every process, after a rebuild too."""
    told = some_histories()
    file = tmp_path / "histories.json"
    write_down(told, file)
    with ExitStack() as stack:
        processes = [
            start(file, stack.enter_context(new_url(kind)), seed, zone, language)
            for seed, zone, language in zip(HASH_SEEDS, cycle(TIME_ZONES), cycle(LOCALES))
        ]
        printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    here = digests(MemoryDatabase(), told)
    for output in printed:
        assert json.loads(output) == [here, here]
    assert sessions_in(told) >= SESSIONS_MIN


def sessions_in(told: list[list[Step]]) -> int:
    count = 0
    for history in told:
        with opened() as house:
            house.play(history)
            count += sum(house.cached(name) is not None for name in SESSIONS)
    return count
