"""A token is made on the command line, shown once, listed by its id and revoked by it."""

import pytest

from tests.cli.conftest import Cli


def test_a_token_is_shown_once_and_listed_by_its_id(cli: Cli) -> None:
    made = cli.run(
        "tokens", "create", "--scope", "report", "--scope", "read", "--room", "a b", "--note", "host \x1b[31m"
    )

    assert made.code == 0
    assert made.out.startswith("reprise_")
    (listed,) = cli.run("tokens", "list", "--json").objects
    assert listed["id"] in made.err
    assert (listed["scopes"], listed["rooms"]) == (["read", "report"], ["a b"])
    assert "revokedAtUnixMs" not in listed
    table = cli.run("tokens", "list").out
    assert "a b" in table
    assert "\x1b" not in table
    for text in (str(listed), table):
        assert made.out.strip() not in text


def test_a_revoked_token_says_so(cli: Cli) -> None:
    made = cli.run("tokens", "create", "--scope", "operate", "--json").objects[0]

    assert cli.run("tokens", "revoke", made["id"]).out == f"revoked: {made['id']}\n"

    assert cli.run("tokens", "list", "--json").objects[0]["revokedAtUnixMs"] > 0
    assert cli.run("tokens", "revoke", "nobody").code == 3


def test_a_store_without_tokens_says_how_to_make_one(filled: Cli) -> None:
    ran = filled.run("tokens", "list")

    assert (ran.code, ran.out) == (0, "")
    assert "tokens create" in ran.err


@pytest.mark.parametrize(
    ("options", "code"), [([], 2), (["--scope", "write"], 2), (["--scope", "read", "--room", " "], 1)]
)
def test_a_token_that_means_nothing_is_refused(cli: Cli, options: list[str], code: int) -> None:
    assert cli.run("tokens", "create", *options).code == code
