"""Asks a running service instead of a store: what verbs do with --url."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from infrastructure.cli.failures import EXIT_NOT_FOUND, EXIT_REMOTE, EXIT_TRY_AGAIN, EXIT_UNAVAILABLE, Failure
from infrastructure.settings import URL

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 30.0

url_option = click.option(
    "--url", metavar="URL", default=None, help=f"Ask the service there instead of a store ({URL})."
)


def service_url(option: str | None) -> str:
    """The service that is meant; blank for none, as when the store is named."""
    from infrastructure import configuration
    from infrastructure.cli.options import db_flag

    if option is None and (db_flag() or not (os.environ.get(URL) or _is_configured())):
        return ""
    return configuration.resolve(url=option).url


def _is_configured() -> bool:
    from infrastructure import settings

    return bool(settings.configured().get("url"))


@contextmanager
def asked(url: str) -> "Iterator[httpx.Client]":
    """A client of the service; what goes wrong is told in a line."""
    import httpx

    from infrastructure import configuration

    token = configuration.resolve().token.get_secret_value()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False) as client:
            yield client
    except httpx.HTTPError as error:
        raise Failure(f"{url}: {str(error) or type(error).__name__}", exit_code=EXIT_UNAVAILABLE) from error


def told(answer: "httpx.Response") -> "httpx.Response":
    """The answer, if it is one; else Failure with what the service says to do."""
    if answer.is_success:
        return answer
    answer.read()
    try:
        said = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        said = answer.reason_phrase
    code = {404: EXIT_NOT_FOUND, 503: EXIT_TRY_AGAIN}.get(answer.status_code, EXIT_REMOTE)
    raise Failure(f"{answer.url.host}: {answer.status_code}: {said}", exit_code=code)
