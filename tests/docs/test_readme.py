"""The README says what there is, and its examples run."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from infrastructure.cli import reprise
from infrastructure.cli.failures import EXIT_CODES
from infrastructure.settings import VARIABLES

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def verbs(group: click.Group = reprise, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Each verb by its full name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def row_of(first: str) -> str:
    """The line of a table that begins with this cell."""
    rows = [line for line in README.splitlines() if line.startswith(f"| {first}")]
    assert len(rows) == 1, f"{first!r} begins {len(rows)} rows of a table"
    return rows[0]


def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert EXAMPLES
    for example in EXAMPLES:
        exec(compile(example, "README.md", "exec"), {})

    assert "Fix the flaky test working The clock was wrong." in capsys.readouterr().out


@pytest.mark.parametrize(("name", "command"), list(verbs()), ids=lambda value: getattr(value, "name", value))
def test_each_verb_is_described_with_its_arguments_and_options(name: str, command: click.Command) -> None:
    row = row_of(f"`{name}")
    described = set(re.findall(r"`(--[a-z-]+)`", row))
    options = {option.opts[0] for option in command.params if isinstance(option, click.Option)}

    assert described == options - {"--db"}
    for argument in command.params:
        if isinstance(argument, click.Argument):
            assert argument.make_metavar(click.Context(command)).strip("[].").upper()[:2] in row.split("`")[1]


def test_no_verb_is_described_that_is_not_there() -> None:
    table = README.split("| Verb ")[1].split("\n\n")[0]
    described = {
        re.sub(r" [\[A-Z].*", "", name) for name in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    }

    assert described == {name for name, _ in verbs()}


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_setting_is_described(variable: str) -> None:
    assert row_of(f"`{variable}`")


@pytest.mark.parametrize("code", EXIT_CODES)
def test_each_exit_code_is_described(code: int) -> None:
    assert row_of(f"{code} ") == f"| {code} | {EXIT_CODES[code]} |"


def test_the_two_commands_are_there() -> None:
    script = (CHECKOUT / "dev").read_text("utf-8")

    for command in ("./dev run", "./dev test"):
        assert f"\n{command} " in README
        assert command in script


def test_every_path_that_is_named_exists() -> None:
    named = set(re.findall(r"`([A-Za-z]+/[\w/.]*|[A-Z]+\.md)`", README))

    assert {path for path in named if not (CHECKOUT / path).exists()} == set()
