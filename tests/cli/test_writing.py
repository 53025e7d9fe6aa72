"""`settle`, `delete`, `restore` and `purge` say what they changed; a dry run says it and changes nothing."""

import pytest

from tests.cli.conftest import CHILD, PARENT, ROOM, Cli


def listed(cli: Cli) -> set[str]:
    return {line["session"] for line in cli.run("sessions", "list", "--json").objects}


def left_over(cli: Cli) -> None:
    with cli.ledger() as ledger:
        report = {"state": {"turn": {"turnId": "t", "phase": "running"}}}
        ledger.report_state(report, room="r", session="s")


def test_settling_ends_what_was_left_over_once(cli: Cli) -> None:
    left_over(cli)

    dry = cli.run("settle", "r", "--dry-run")
    done = cli.run("settle", "r")
    again = cli.run("settle", "r")

    assert (dry.out, done.out) == ("would settle turn t\n", "settled turn t\n")
    assert (again.out, again.err) == ("", "no turn was left over\n")
    (view,) = cli.run("sessions", "show", "s", "--json").objects
    assert view["turnList"][0]["outcome"] == "interrupted"


def test_settling_a_room_that_is_not_there_is_not_found(cli: Cli) -> None:
    left_over(cli)

    ran = cli.run("settle", "elsewhere")

    assert (ran.code, ran.err) == (3, "error: no session in room elsewhere\n")


def test_a_tree_is_deleted_and_restored_as_a_whole(filled: Cli) -> None:
    dry = filled.run("delete", PARENT, "--dry-run")
    assert {PARENT, CHILD} <= listed(filled)

    done = filled.run("delete", PARENT)
    assert listed(filled).isdisjoint({PARENT, CHILD})

    back = filled.run("restore", PARENT)
    assert {PARENT, CHILD} <= listed(filled)
    assert set(dry.lines) == {f"would be deleted: {PARENT}", f"would be deleted: {CHILD}"}
    assert set(done.lines) == {f"deleted: {PARENT}", f"deleted: {CHILD}"}
    assert set(back.lines) == {f"restored: {PARENT}", f"restored: {CHILD}"}


@pytest.mark.parametrize(
    ("verbs", "why"),
    [(["delete", "delete"], "it is deleted already"), (["restore"], "it is not deleted")],
)
def test_what_is_so_already_is_no_trouble(filled: Cli, verbs: list[str], why: str) -> None:
    ran = [filled.run(verb, PARENT) for verb in verbs][-1]

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"nothing to do for {PARENT}: {why}\n"


def test_a_purge_asks_and_nobody_answering_is_a_usage_error(filled: Cli) -> None:
    ran = filled.run("purge", PARENT)

    assert ran.code == 2
    assert "--yes" in ran.err
    assert PARENT in listed(filled)


@pytest.mark.parametrize(("typed", "code"), [("n\n", 130), ("", 130), ("y\n", 0)])
def test_a_purge_does_what_it_is_answered(
    filled: Cli, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr("infrastructure.cli.writing.may_ask", lambda: True)

    ran = filled.run("purge", PARENT, typed=typed)

    assert ran.code == code
    assert "Destroy the content of 2 sessions with 7 messages for good?" in ran.err
    assert (PARENT in listed(filled)) == (code != 0)


def test_a_purge_for_good(filled: Cli) -> None:
    dry = filled.run("purge", PARENT, "--dry-run")
    assert {PARENT, CHILD} <= listed(filled)

    done = filled.run("purge", PARENT, "--yes")

    assert set(dry.lines) == {f"would be purged: {PARENT}", f"would be purged: {CHILD}"}
    assert set(done.lines) == {f"purged: {PARENT}", f"purged: {CHILD}"}
    back = filled.run("restore", PARENT, "--room", ROOM)
    assert back.code == 4
    assert "cannot come back" in back.err
    assert filled.run("purge", PARENT, "--room", ROOM, "--yes").err == (
        f"nothing to do for {PARENT}: it is purged already\n"
    )
