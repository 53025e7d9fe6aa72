"""Files are read in their order, here or in a process of its own, and either way tell the same."""

import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from pathlib import Path

import pytest

from infrastructure.transcripts import reading
from infrastructure.transcripts.files import FoundFile
from infrastructure.transcripts.reading import ReadingEnded, read_all
from tests.infrastructure.transcripts.reading import OWN, SAMPLE, own_files


def everything(tmp_path: Path) -> list[tuple[FoundFile, int]]:
    """Our own transcripts and one that is none, each with its size."""
    (tmp_path / "none.jsonl").write_text("# Notes\n")
    paths = [*own_files(), *sorted(SAMPLE.rglob("*.jsonl")), tmp_path / "none.jsonl", OWN / "missing.jsonl"]
    return [(FoundFile(path), path.stat().st_size if path.exists() else 0) for path in paths]


@pytest.fixture
def in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ALONE_BYTES_MAX", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_a_process_of_its_own_reads_the_same_in_the_same_order(
    tmp_path: Path, in_a_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = everything(tmp_path)
    there = list(read_all(files, redacts=False))
    monkeypatch.setattr(reading, "ALONE_BYTES_MAX", 2**40)
    here = list(read_all(files, redacts=False))

    assert there == here
    assert [one.found for one in here] == [found for found, _ in files]
    assert [bool(one.trouble) for one in here][-2:] == [True, True]


def test_reading_stays_a_few_files_ahead(
    tmp_path: Path, in_a_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "AHEAD_BYTES_MAX", 1)

    assert len(list(read_all(everything(tmp_path), redacts=False))) == len(everything(tmp_path))


def test_an_import_that_ends_early_ends_its_process(tmp_path: Path, in_a_process: None) -> None:
    readings = read_all(everything(tmp_path), redacts=False)
    next(iter(readings))

    readings.close()  # type: ignore[attr-defined]

    assert children() == []


def test_a_reading_process_that_was_killed_is_told(tmp_path: Path, in_a_process: None) -> None:
    files = everything(tmp_path) * 20
    readings = read_all(files, redacts=False)
    next(iter(readings))
    for child in children():
        os.kill(child, signal.SIGKILL)

    with pytest.raises(ReadingEnded, match="import again"):
        list(readings)


READS_FOR_LONG = """
import os, sys
from pathlib import Path
from infrastructure.transcripts import reading
from infrastructure.transcripts.files import FoundFile
reading.ALONE_BYTES_MAX = 0
os.cpu_count = lambda: 2
readings = reading.read_all([(FoundFile(Path(sys.argv[1])), 1)] * 1000, redacts=False)
next(readings)
print("reading", flush=True)
sys.stdin.read()
"""


def test_the_reading_process_of_an_import_that_was_killed_ends_as_well() -> None:
    """Both hold the same pipe: it is at its end when neither is there."""
    command = [sys.executable, "-c", READS_FOR_LONG, str(own_files()[0])]
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert killed.stdout
    assert killed.stdout.readline() == b"reading\n"

    killed.kill()

    told, _ = killed.communicate(timeout=60)
    assert told == b""


def children() -> list[int]:
    """The processes that read for this one."""
    return [one.pid for one in active_children() if one.pid]
