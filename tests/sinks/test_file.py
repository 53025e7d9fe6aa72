"""What stands in a file of deltas, whatever happens to the file."""

import asyncio
import fcntl
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from application.sinks import Parcel, Receipt, Trouble
from domain.delta import CommitDelta
from infrastructure.delta_lines import line_of
from infrastructure.sinks import file as file_sink
from infrastructure.sinks.file import FileSink
from tests.sinks.parcels import HOSTILE, committed, parcel

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deltas.jsonl"


def send(path: Path, *parcels: Parcel) -> list[Receipt]:
    """Send all of them at once through one sink."""

    async def run() -> list[Receipt]:
        sink = FileSink(path)
        receipts = await asyncio.gather(*map(sink.send, parcels))
        await sink.close()
        return receipts

    return asyncio.run(run())


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def ids(path: Path) -> list[str]:
    return [line["transactionId"] for line in lines(path)]


def test_a_delta_is_a_line_in_its_envelope() -> None:
    line = line_of(committed(7))

    assert line["transactionId"] == "tx-7"
    assert line["position"] == 7
    assert line["recordedAt"] == "2026-11-30T12:04:31.123Z"


def test_lines_are_appended_in_the_order_in_which_they_were_sent(path: Path) -> None:
    assert set(send(path, *map(parcel, range(1_000)))) == {Receipt()}
    assert send(path, parcel(1_000)) == [Receipt()]

    assert ids(path) == [f"tx-{number}" for number in range(1_001)]
    assert json.dumps(lines(path)[7]) == json.dumps(line_of(committed(7)))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_ids_come_back_equal_and_stay_on_their_line(path: Path, hostile: str) -> None:
    sent = parcel(room=hostile, sessions=(hostile,))

    send(path, sent, parcel(2))

    text = path.read_bytes().decode()
    assert len(text.splitlines()) == 2  # Which also ends lines at U+2028 and the like.
    assert CommitDelta.from_json(json.dumps(lines(path)[0]["delta"])) == sent.committed.delta


def test_a_delivery_behind_a_gap_says_how_many_deltas_are_missing(path: Path) -> None:
    send(path, parcel(gap=3), parcel(2))

    assert [line.get("gap") for line in lines(path)] == [3, None]


def test_a_receipt_is_given_once_the_line_is_on_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bytes] = []
    really = os.fsync

    def fsync(file: int) -> None:
        really(file)
        flushed.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)

    send(path, parcel())

    assert b"tx-1" in flushed[0]
    assert len(flushed) == 2, "the folder as well, because the file is new"


def test_the_tail_that_a_crash_left_is_cut_off_and_its_delta_comes_again(path: Path) -> None:
    send(path, parcel(1), parcel(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])

    send(path, parcel(2, attempt=2), parcel(3))

    assert ids(path) == ["tx-1", "tx-2", "tx-3"]
    assert path.read_bytes().startswith(whole)


def test_a_line_of_somebody_else_stays(path: Path) -> None:
    path.write_bytes(b'{"note": "by hand"}')

    send(path, parcel())

    first, second = path.read_bytes().splitlines()
    assert first == b'{"note": "by hand"}'
    assert json.loads(second)["transactionId"] == "tx-1"


@pytest.mark.parametrize("how", ["renamed", "removed", "truncated"])
def test_a_file_that_is_rotated_away_is_followed_by_a_new_one(path: Path, how: str) -> None:
    def rotate() -> None:
        match how:
            case "renamed":
                path.rename(path.with_suffix(".1"))
            case "removed":
                path.unlink()
            case _:
                os.truncate(path, 0)

    async def run() -> None:
        sink = FileSink(path)
        await sink.send(parcel(1))
        rotate()
        await sink.send(parcel(2))
        await sink.close()

    asyncio.run(run())

    assert ids(path) == ["tx-2"]
    if how == "renamed":
        assert ids(path.with_suffix(".1")) == ["tx-1"]


def test_several_processes_may_write_to_one_file(path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.sinks.test_file import send\n"
        "from tests.sinks.parcels import parcel\n"
        "first = int(sys.argv[2])\n"
        "for at in range(first, first + 50):\n"
        "    assert send(Path(sys.argv[1]), parcel(at))[0].trouble is None\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, path, str(first)], cwd=CHECKOUT)
        for first in (0, 50, 100)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]

    found = ids(path)
    assert sorted(found) == sorted(f"tx-{at}" for at in range(150))
    for first in (0, 50, 100):
        of_one = [one for one in found if first <= int(one.removeprefix("tx-")) < first + 50]
        assert of_one == [f"tx-{at}" for at in range(first, first + 50)]


def test_a_file_that_another_process_holds_is_the_destinations_fault(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sink, "LOCK_TIMEOUT_S", 0.0)
    with path.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        receipt = send(path, parcel())[0]

    assert receipt.trouble is Trouble.ENDPOINT
    assert "another process" in receipt.reason
    assert send(path, parcel()) == [Receipt()]


def test_a_folder_that_is_not_there_is_the_destinations_fault_until_it_is(path: Path) -> None:
    target = path / "deltas.jsonl"

    receipt = send(target, parcel())[0]

    assert receipt == Receipt(Trouble.ENDPOINT, f"{target}: No such file or directory")
    path.mkdir()
    assert send(target, parcel()) == [Receipt()]


@contextmanager
def file_size_max(size: int) -> Iterator[None]:
    """Files of this process end there, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_without_room_on_the_disk_no_part_of_a_line_stays(path: Path) -> None:
    send(path, parcel(1))
    size = path.stat().st_size

    with file_size_max(size + 100):
        receipt = send(path, parcel(2))[0]

    assert receipt.trouble is Trouble.ENDPOINT
    assert path.stat().st_size == size
    assert send(path, parcel(2, attempt=2)) == [Receipt()]
    assert ids(path) == ["tx-1", "tx-2"]


def test_a_cancelled_delivery_leaves_the_others_alone(path: Path) -> None:
    async def run() -> None:
        sink = FileSink(path)
        first, second = asyncio.create_task(sink.send(parcel(1))), asyncio.create_task(sink.send(parcel(2)))
        await asyncio.sleep(0)
        second.cancel()
        assert await first == Receipt()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert await sink.send(parcel(3)) == Receipt()
        await sink.close()

    asyncio.run(run())

    assert ids(path)[0] == "tx-1"
    assert ids(path)[-1] == "tx-3"
