"""`outbox` shows what commits changed; `redeliver` hands it over at least once and remembers."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.delta import CommitDelta
from infrastructure import crashpoints
from infrastructure.delta_lines import LINE_START
from tests.cli.conftest import Cli


class Died(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    crashpoints.disarm()


def die() -> None:
    raise Died


def report(cli: Cli, session: str, room: str = "r") -> None:
    with cli.ledger() as ledger:
        ledger.report_state({"state": {"title": session}}, room=room, session=session)


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def pending(cli: Cli) -> int:
    return len(cli.run("outbox", "--pending", "--json").lines)


def test_everything_is_pending_until_somebody_subscribes(filled: Cli, tmp_path: Path) -> None:
    assert pending(filled) == 6

    filled.run("redeliver", "--to", tmp_path / "deltas.jsonl")

    assert pending(filled) == 0
    assert len(filled.run("outbox", "--json").lines) == 6


def test_a_line_holds_the_delta_in_its_envelope(filled: Cli, tmp_path: Path) -> None:
    ran = filled.run("redeliver", "--to", tmp_path / "deltas.jsonl")

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"handed over 6 deltas to {tmp_path / 'deltas.jsonl'}\n"
    with filled.ledger() as ledger:
        stored = list(ledger.deltas())
    lines = lines_of(tmp_path / "deltas.jsonl")
    assert [CommitDelta.model_validate(line["delta"]) for line in lines] == [one.delta for one in stored]
    assert [line["position"] for line in lines] == [one.last_position for one in stored]
    assert list(lines[0]) == ["transactionId", "position", "recordedAt", "delta"]
    raw = (tmp_path / "deltas.jsonl").read_text()
    assert all(one.delta.to_json() in raw for one in stored)


def test_each_target_remembers_across_runs_what_it_was_given(cli: Cli, tmp_path: Path) -> None:
    report(cli, "one")
    cli.run("redeliver", "--to", tmp_path / "a")
    report(cli, "two")

    again, other, out = (
        cli.run("redeliver", "--to", tmp_path / "a"),
        cli.run("redeliver", "--to", tmp_path / "b"),
        cli.run("redeliver"),
    )

    assert again.err.startswith("handed over 1 delta to ")
    assert other.err.startswith("handed over 2 deltas to ")
    assert out.objects == lines_of(tmp_path / "a") == lines_of(tmp_path / "b")
    assert cli.run("redeliver", "--to", "-").out == ""


def test_the_outbox_names_the_subscriptions_that_wait(cli: Cli, tmp_path: Path) -> None:
    report(cli, "one")
    cli.run("redeliver")
    report(cli, "two")

    (line,) = cli.run("outbox", "--pending", "--json").objects
    text = cli.run("outbox").lines

    assert line["pending"] == ["stdout"]
    assert [row.endswith("pending for stdout") for row in text] == [False, True]


def test_a_delta_that_was_written_and_not_marked_comes_again(cli: Cli, tmp_path: Path) -> None:
    report(cli, "one")
    crashpoints.arm("outbox.after_send", die)
    with pytest.raises(Died):
        cli.run("redeliver", "--to", tmp_path / "deltas")
    crashpoints.disarm()

    cli.run("redeliver", "--to", tmp_path / "deltas")

    first, second = lines_of(tmp_path / "deltas")
    assert first == second


def test_a_line_left_unfinished_is_cut_and_written_whole(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "deltas"
    report(cli, "one")
    cli.run("redeliver", "--to", target)
    whole = target.read_bytes()
    report(cli, "two")
    for torn in (LINE_START[:5], LINE_START + b'"x","delta":{"pad":"' + b"x" * 200_000):
        target.write_bytes(whole + torn)

        cli.run("redeliver", "--to", target)

        assert target.read_bytes().startswith(whole)
        assert all("delta" in line for line in lines_of(target))
    assert len(lines_of(target)) == 1


def test_what_somebody_else_left_at_the_end_stays(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "deltas"
    target.write_text("a note without an end")
    report(cli, "one")

    cli.run("redeliver", "--to", target)

    first, second = target.read_text().splitlines()
    assert first == "a note without an end"
    assert json.loads(second)["position"]


def test_a_file_that_another_process_writes_to_is_busy(cli: Cli, tmp_path: Path) -> None:
    report(cli, "one")
    with (tmp_path / "deltas").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        ran = cli.run("redeliver", "--to", tmp_path / "deltas")

    assert ran.code == 75
    assert "another process writes to it" in ran.err
    assert pending(cli) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_leaves_deltas_pending(cli: Cli) -> None:
    report(cli, "one")
    report(cli, "two", room="other")

    ran = cli.run("redeliver", "--to", "/dev/full")

    assert ran.code == 74
    assert "error: 2 deltas not taken, so still pending; try again\n" in ran.err
    assert "No space left on device" in ran.err
    assert pending(cli) == 2


def test_a_target_that_cannot_be_written_is_said(cli: Cli, tmp_path: Path) -> None:
    report(cli, "one")

    ran = cli.run("redeliver", "--to", tmp_path)

    assert (ran.code, ran.err) == (74, f"error: {tmp_path}: Is a directory\n")


def test_a_reader_that_goes_away_ends_it_quietly_and_marks_nothing(cli: Cli) -> None:
    report(cli, "one")
    read_end, write_end = os.pipe()
    os.close(read_end)

    ran = subprocess.run(
        [sys.executable, "-m", "tests.cli.command", "--db", cli.url, "redeliver"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )
    os.close(write_end)

    assert (ran.returncode, ran.stderr) == (141, "")
    assert len(cli.run("redeliver").lines) == 1
