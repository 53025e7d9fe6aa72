"""Asks a running service instead of a store: what verbs do with --url."""

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from infrastructure.cli.failures import (
    EXIT_CONFLICT,
    EXIT_NOT_FOUND,
    EXIT_REMOTE,
    EXIT_TRY_AGAIN,
    EXIT_UNAVAILABLE,
    Failure,
)
from infrastructure.cli.text import note
from infrastructure.settings import URL

if TYPE_CHECKING:
    import httpx

    Client = httpx.Client

    from application.views import SessionSummary

PAGE_MAX: Final = 1_000
TIMEOUT_S: Final = 30.0
QUIET_S: Final = 40.0
"""Between two pieces of a stream: it gives a sign of life every 15 s."""

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
    code = {404: EXIT_NOT_FOUND, 409: EXIT_CONFLICT, 503: EXIT_TRY_AGAIN}.get(answer.status_code, EXIT_REMOTE)
    raise Failure(f"{answer.url.host}: {answer.status_code}: {said}", exit_code=code)


def streamed(client: "httpx.Client", after: int, end: int | None) -> Generator[dict[str, Any]]:
    """The events of a stream behind a position, up to another one, or until the service ends it."""
    if end is not None and after >= end:
        return
    # Without an end it may be quiet for as long as it takes two signs of life.
    with client.stream("GET", "/v1/stream", params={"after": after}, timeout=QUIET_S) as answer:
        told(answer)
        is_commit = False
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                is_commit = value == "commit"
                if value == "reset":
                    note("some of what was asked for is no longer kept")
            elif name == "data" and is_commit:
                event = json.loads(value)
                yield event
                if end is not None and int(event["sequence"]) >= end:
                    return
            elif name == "" and end is not None and line.startswith(":"):
                return


def downloaded(client: "httpx.Client", path: str) -> Iterator[bytes]:
    """The bytes of a file of the service."""
    with client.stream("GET", path) as answer:
        yield from told(answer).iter_bytes()


def summaries(client: "httpx.Client", room: str | None) -> "Iterator[SessionSummary]":
    """The sessions of a room, or of all, page after page."""
    from datetime import datetime
    from urllib.parse import quote

    from application.views import SessionSummary

    path = "/v1/sessions" if room is None else f"/v1/rooms/{quote(room, safe='')}/sessions"
    asked_for = {"limit": PAGE_MAX}
    while True:
        page = told(client.get(path, params=asked_for)).json()
        for item in page["items"]:
            changed = datetime.fromisoformat(item.pop("updatedAt"))
            item["updatedAtUnixMs"] = round(changed.timestamp() * 1_000)
            yield SessionSummary.model_validate(item)
        if not page.get("next"):
            return
        asked_for = {"limit": PAGE_MAX, "cursor": page["next"]}
