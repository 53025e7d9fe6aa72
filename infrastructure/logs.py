"""Log lines: JSON on stderr, or text where a person looks on; without secrets."""

import logging
import os
import re
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import structlog

from infrastructure.text import shown

_TOKEN: Final = re.compile(
    r"reprise_[\w-]{20,}|whsec_[\w+/=-]{8,}|(?i:bearer) +[\w.~+/=-]+|//[^/\s:@]+:[^/\s@]+@"
)
"""What must not be read in a log, wherever it came from: tokens, secrets, passwords in addresses."""
QUIET: Final = ("httpx", "httpcore", "uvicorn", "uvicorn.error", "asyncio")
"""Loggers of libraries that have more to say than is of use here."""


def configure(stream: TextIO) -> None:
    """Let what we log come out on a stream."""
    structlog.configure(
        processors=[*_processors(stream), ordered, _renderer(stream)],
        logger_factory=lambda *_: structlog.PrintLogger(stream),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )


def adopt_libraries(stream: TextIO) -> None:
    """Let what libraries log, the server's among them, come out in the same form."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_processors(stream)],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                ordered,
                _renderer(stream),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _processors(stream: TextIO) -> list[structlog.typing.Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%SZ" if stream.isatty() else "iso", utc=True),
        _plain if stream.isatty() else structlog.processors.format_exc_info,
        masked,
    ]


def _renderer(stream: TextIO) -> structlog.typing.Processor:
    if not stream.isatty():
        return structlog.processors.JSONRenderer()
    # Without the values of variables, which the library would show with a traceback.
    formatter = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=_may_colour(), exception_formatter=formatter)


def ordered(_: object, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """When, how bad and what first, for who reads line after line."""
    return {name: fields.pop(name) for name in ("timestamp", "level", "event") if name in fields} | dict(
        fields
    )


def masked(_: object, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The fields without what looks like a secret."""
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = _TOKEN.sub("***", value)
    return fields


def _plain(_: object, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Texts that a terminal may be shown."""
    return {key: shown(value) if isinstance(value, str) else value for key, value in fields.items()}


def _may_colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
