"""Which destination a subscription's kind and target name, and the sink for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from application.ports import Clock
from application.signing import SigningSecrets
from application.sinks import Parcel, Receipt, Sink, Trouble
from domain.errors import RepriseError
from infrastructure.addresses import AddressPolicy

WEBHOOK: Final = "webhook"
JETSTREAM: Final = "jetstream"
FILE: Final = "file"
KINDS: Final = (WEBHOOK, JETSTREAM, FILE)
KINDS_FOR_CALLERS: Final = (WEBHOOK, JETSTREAM)
"""What somebody may name who is not on this machine: a file would be any that the service may write to."""
TARGET_LENGTH_MAX: Final = 2_000
PREFIX_LENGTH_MAX: Final = 200
"""Characters; two tokens follow it in a subject."""
NATS_PORT: Final = 4222


class BadTarget(RepriseError):
    """A destination cannot be served: its text says what to write instead."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What sinks are made of, and what they may reach."""

    clock: Clock
    secrets: SigningSecrets
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    """Where webhooks may go; brokers and files are named by whoever runs the service."""
    nats_credentials: str = field(default="", repr=False)
    """A token or `user:password`; blank for servers that ask for neither."""


def check_target(
    kind: str, target: str, addresses: AddressPolicy | None = None, kinds: Sequence[str] = KINDS
) -> str:
    """The target in its usual spelling. Raises BadTarget; looks nothing up and opens nothing."""
    if kind not in kinds:
        raise BadTarget(f"there is no destination of kind {kind!r}; give {', '.join(kinds)}")
    if len(target) > TARGET_LENGTH_MAX or not target.isprintable():
        raise BadTarget(f"a target has at most {TARGET_LENGTH_MAX} characters, all printable")
    parts = _split(target)
    if parts.username is not None or parts.password is not None:
        raise BadTarget("a target is shown in lists and kept for ever, so it must have no user or password")
    match kind:
        case "webhook":
            return _webhook(parts, addresses or AddressPolicy())
        case "jetstream":
            server, prefix = _jetstream(parts)
            return f"{server}/{prefix}"
        case _:
            return f"file://{_path(parts)}"


class UnservedSink:
    """Takes nothing, and says why: a target that was once taken and can no longer be served."""

    def __init__(self, reason: str) -> None:
        self._receipt = Receipt(Trouble.ENDPOINT, reason)

    async def send(self, parcel: Parcel) -> Receipt:  # noqa: ARG002  (the port's signature)
        return self._receipt

    async def close(self) -> None:
        """Nothing to let go."""


def open_sink(kind: str, target: str, subscription: str, around: Surroundings) -> Sink:
    """The sink for the target of a subscription. Raises BadTarget; connects when something is sent."""
    parts = _split(check_target(kind, target, around.addresses))
    match kind:
        case "webhook":
            from infrastructure.http_client import HttpClient
            from infrastructure.sinks.webhook import LIMITS, WebhookSink

            client = HttpClient(around.addresses, LIMITS)
            return WebhookSink(parts.geturl(), client, around.secrets, subscription, around.clock)
        case "jetstream":
            from infrastructure.sinks.jetstream import JetStreamSink, NatsMissing

            try:
                return JetStreamSink(*_jetstream(parts), around.nats_credentials)
            except NatsMissing as missing:
                raise BadTarget(str(missing)) from missing
        case _:
            from infrastructure.sinks.file import FileSink

            return FileSink(Path(unquote(parts.path)))


def _split(target: str) -> SplitResult:
    try:
        parts = urlsplit(target)
        _ = parts.port
    except ValueError as error:
        raise BadTarget(f"the target is no URL: {error}") from None
    return parts


def _webhook(parts: SplitResult, addresses: AddressPolicy) -> str:
    if parts.scheme not in {"https", "http"} or not parts.hostname or parts.fragment:
        raise BadTarget("a webhook's target is https://host/path, without a fragment")
    if parts.scheme == "http" and not (addresses.allows_private or addresses.allows_loopback):
        raise BadTarget(
            "a webhook's target is https://host/path; http:// is for networks of one's own,"
            " which REPRISE_ALLOW_PRIVATE_TARGETS=true allows"
        )
    return parts.geturl()


def _jetstream(parts: SplitResult) -> tuple[str, str]:
    """Server and prefix."""
    prefix = unquote(parts.path.strip("/"))
    if parts.scheme not in {"nats", "tls"} or not parts.hostname or parts.query or parts.fragment:
        raise BadTarget("a JetStream target is nats://host:4222/prefix, or tls:// for the same over TLS")
    tokens = prefix.split(".")
    if not prefix.isascii() or len(prefix) > PREFIX_LENGTH_MAX or not all(map(_is_token, tokens)):
        raise BadTarget(
            "a JetStream target ends in the prefix of its subjects, such as nats://host:4222/reprise.commits:"
            f" words of letters, digits, - and _ with dots between, {PREFIX_LENGTH_MAX} characters at most"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or NATS_PORT}", prefix


def _is_token(word: str) -> bool:
    return word.replace("-", "").replace("_", "").isalnum()


def _path(parts: SplitResult) -> str:
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
        raise BadTarget("a file's target is file:///path/to/file.jsonl")
    if not parts.path.startswith("/") or parts.path.endswith("/"):
        raise BadTarget("a file's target is file:///path/to/file.jsonl, the whole path of a file")
    return parts.path
