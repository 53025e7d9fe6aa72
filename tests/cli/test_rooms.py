"""`rooms` says which rooms are pulled in; `sessions hide` and `unhide` which of their sessions are not."""

import pytest

from tests.cli.conftest import Cli, Ran

URL = "http://127.0.0.1:1"


def track(cli: Cli, room: str = "room-1", *more: str) -> Ran:
    return cli.run("rooms", "track", room, "--remote", URL, *more)


def rooms(cli: Cli) -> list[dict[str, object]]:
    return cli.run("rooms", "list", "--json").objects


def test_a_tracked_room_is_listed_with_where_it_comes_from(cli: Cli) -> None:
    """The store is made for it, and the token itself is nowhere."""
    ran = track(cli, "room-1", "--token-env", "REMOTE_TOKEN", "--user", "me", "--allow-private")

    assert (ran.code, ran.out) == (0, f"tracked: room-1 from {URL}\n")
    assert ran.err == "REMOTE_TOKEN is not set here; set it where the room is pulled\n"
    assert rooms(cli) == [
        {
            "room": "room-1",
            "remote": URL,
            "tokenEnv": "REMOTE_TOKEN",
            "user": "me",
            "allowPrivate": True,
            "hidden": [],
            "version": 1,
        }
    ]
    assert cli.run("rooms", "list").lines == [
        "ROOM    REMOTE              TOKEN FROM    HIDDEN",
        "room-1  http://127.0.0.1:1  REMOTE_TOKEN       0",
    ]


def test_the_same_wish_again_is_nothing_to_do(cli: Cli) -> None:
    track(cli)
    track_again, untracked, again = (
        track(cli),
        cli.run("rooms", "untrack", "room-1"),
        cli.run("rooms", "untrack", "room-1"),
    )

    assert track_again.err == "nothing to do: room room-1 is tracked already\n"
    assert untracked.out == "untracked: room-1\n"
    assert again.err == "nothing to do: room room-1 is not tracked\n"
    assert rooms(cli) == []
    assert "no room is tracked" in cli.run("rooms", "list").err


def test_another_remote_replaces_the_first_one(cli: Cli) -> None:
    track(cli)
    cli.run("rooms", "track", "room-1", "--remote", "https://other.example:8443")

    assert [room["remote"] for room in rooms(cli)] == ["https://other.example:8443"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "cannot be used"),
        ("ftp://host", "cannot be used"),
        ("http://host:0", "cannot be used"),
        ("https://user:secret@host", "holds a name or a password"),
        ("https://host/?token=secret", "has a query"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_repeating_its_secrets(
    cli: Cli, url: str, told: str
) -> None:
    ran = cli.run("rooms", "track", "room-1", "--remote", url)

    assert ran.code == 2
    assert told in ran.err
    assert "secret" not in ran.err
    assert not cli.file.exists()


def test_a_room_needs_a_name(cli: Cli) -> None:
    ran = track(cli, " ")

    assert ran.code == 1
    assert "expected a name" in ran.err
    assert rooms(cli) == []


def test_an_unknown_room_cannot_be_untracked(cli: Cli) -> None:
    track(cli)

    ran = cli.run("rooms", "untrack", "nowhere")

    assert (ran.code, ran.out) == (3, "")
    assert "room nowhere is not tracked" in ran.err


def test_a_dry_run_says_what_would_happen_and_stores_nothing(cli: Cli) -> None:
    assert track(cli, "room-1", "--dry-run").out == f"would be tracked: room-1 from {URL}\n"
    assert not cli.file.exists()
    track(cli)

    untracked = cli.run("rooms", "untrack", "room-1", "--dry-run")
    hidden = cli.run("sessions", "hide", "s", "--room", "room-1", "--dry-run")

    assert untracked.out == "would be untracked: room-1\n"
    assert hidden.out == "would be hidden: s\n"
    [room] = rooms(cli)
    assert (room["hidden"], room["version"]) == ([], 1)


def test_a_session_is_hidden_and_shown_again(cli: Cli) -> None:
    """With the room's name also one that was never pulled."""
    track(cli)
    assert cli.run("sessions", "hide", "s", "--room", "room-1").out == "hidden: s\n"
    again = cli.run("sessions", "hide", "s", "--room", "room-1")
    assert again.err == "nothing to do: s is hidden already\n"
    assert [room["hidden"] for room in rooms(cli)] == [["s"]]

    with cli.ledger() as ledger:
        ledger.report_state({"state": {"title": "Known"}}, room="room-1", session="s")
    assert cli.run("sessions", "unhide", "s").out == "shown: s\n"
    assert cli.run("sessions", "unhide", "s").err == "nothing to do: s is not hidden\n"
    assert [room["hidden"] for room in rooms(cli)] == [[]]


def test_a_session_that_nobody_knows_is_not_hidden_without_its_room(cli: Cli) -> None:
    track(cli)

    assert cli.run("sessions", "hide", "s").code == 3


def test_hostile_names_are_shown_harmless(cli: Cli) -> None:
    ran = track(cli, "\x1b[2Jroom")

    assert ran.out == f"tracked: \\x1b[2Jroom from {URL}\n"
    assert "\x1b" not in cli.run("rooms", "list").out
