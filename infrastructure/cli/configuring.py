"""The verb about settings: `config show`."""

from typing import Any

import click

from infrastructure.cli.options import db_flag, db_option, json_option
from infrastructure.cli.text import Column, say_json, table
from infrastructure.text import shown


@click.group()
def config() -> None:
    """Settings: what holds, and where it was set."""


@config.command("show")
@json_option
@db_option
def show(as_json: bool) -> None:
    """Show each setting, its value and where that comes from; secrets are masked.

    An option goes before the environment, that before config.toml, and that before the default.
    """
    from infrastructure import configuration

    url = db_flag()
    found = configuration.resolve(database_url=url)
    listed = list(configuration.shown(found, database_url=url))
    if as_json:
        for setting in listed:
            say_json(setting._asdict())
        return
    rows = [(setting.name, shown(_spelled(setting.value)), setting.source) for setting in listed]
    table((Column("SETTING"), Column("VALUE", fold_at=60), Column("FROM")), rows)


def _spelled(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(value) or "-"
        case float():
            return f"{value:g}"
        case _:
            return str(value) or "-"
