"""Which targets are destinations, and what is said of those that are none."""

import subprocess
import sys
from pathlib import Path

import pytest

from infrastructure.addresses import AddressPolicy
from infrastructure.sinks.file import FileSink
from infrastructure.sinks.jetstream import JetStreamSink
from infrastructure.sinks.targets import KINDS_FOR_CALLERS, BadTarget, Surroundings, check_target, open_sink
from infrastructure.sinks.webhook import WebhookSink
from infrastructure.store.memory import MemoryDatabase
from infrastructure.store.secrets import StoredSecrets
from tests.store.place import Clock

PRIVATE = AddressPolicy(allows_loopback=True, allows_private=True)


def around() -> Surroundings:
    return Surroundings(Clock(), StoredSecrets(MemoryDatabase()))


@pytest.mark.parametrize(
    ("kind", "target", "usual"),
    [
        ("webhook", "https://hooks.example/a?b=c", "https://hooks.example/a?b=c"),
        ("webhook", "HTTPS://hooks.example:8443", "https://hooks.example:8443"),
        ("jetstream", "nats://broker/commits", "nats://broker:4222/commits"),
        ("jetstream", "tls://broker:4443/reprise.commits/", "tls://broker:4443/reprise.commits"),
        ("jetstream", "nats://[::1]:4222/commits", "nats://[::1]:4222/commits"),
        ("file", "file:///var/lib/deltas.jsonl", "file:///var/lib/deltas.jsonl"),
        ("file", "file://localhost/with%20blank", "file:///with%20blank"),
    ],
)
def test_a_target_has_one_usual_spelling(kind: str, target: str, usual: str) -> None:
    assert check_target(kind, target) == check_target(kind, usual) == usual


@pytest.mark.parametrize(
    ("kind", "target", "says"),
    [
        ("carrier pigeon", "https://hooks.example", "webhook, jetstream, file"),
        ("webhook", "hooks.example/a", "https://host/path"),
        ("webhook", "ftp://hooks.example/a", "https://host/path"),
        ("webhook", "https:///a", "https://host/path"),
        ("webhook", "https://hooks.example/#a", "https://host/path"),
        ("webhook", "http://hooks.example/a", "REPRISE_ALLOW_PRIVATE_TARGETS=true"),
        ("webhook", "https://me:hunter2@hooks.example/", "no user or password"),
        ("webhook", "https://hooks.example:99999/", "no URL"),
        ("webhook", "https://[hooks/", "no URL"),
        ("webhook", "https://hooks.example/\n", "printable"),
        ("webhook", "https://hooks.example/" + "a" * 2_000, "2000 characters"),
        ("jetstream", "https://broker/commits", "nats://host:4222/prefix"),
        ("jetstream", "nats://broker", "the prefix of its subjects"),
        ("jetstream", "nats://broker/commits.*", "the prefix of its subjects"),
        ("jetstream", "nats://broker/a..b", "the prefix of its subjects"),
        ("jetstream", "nats://broker/$JS.API", "the prefix of its subjects"),
        ("jetstream", "nats://broker/" + "a" * 201, "200 characters"),
        ("jetstream", "nats://token@broker/commits", "no user or password"),
        ("file", "/var/lib/deltas.jsonl", "file:///path"),
        ("file", "file://elsewhere/deltas.jsonl", "file:///path"),
        ("file", "file:deltas.jsonl", "file:///path"),
        ("file", "file:///var/lib/", "the whole path"),
    ],
)
def test_what_is_no_target_is_told_what_to_write(kind: str, target: str, says: str) -> None:
    with pytest.raises(BadTarget) as bad:
        check_target(kind, target)

    assert says in str(bad.value)
    assert "hunter2" not in str(bad.value)


def test_a_caller_from_elsewhere_may_name_no_file() -> None:
    with pytest.raises(BadTarget, match="give webhook, jetstream"):
        check_target("file", "file:///etc/passwd", kinds=KINDS_FOR_CALLERS)


def test_plain_http_is_for_networks_of_ones_own() -> None:
    target = "http://127.0.0.1:9000/hook"

    assert check_target("webhook", target, PRIVATE) == target


def test_a_target_is_served_by_the_sink_of_its_kind(tmp_path: Path) -> None:
    assert isinstance(open_sink("webhook", "https://hooks.example", "ref", around()), WebhookSink)
    assert isinstance(open_sink("jetstream", "nats://broker/commits", "", around()), JetStreamSink)
    assert isinstance(open_sink("file", f"file://{tmp_path}/deltas.jsonl", "", around()), FileSink)


def test_a_path_may_have_any_characters(tmp_path: Path) -> None:
    sink = open_sink("file", f"file://{tmp_path}/with%20blank%C3%A9.jsonl", "", around())

    assert isinstance(sink, FileSink)
    assert sink.path == tmp_path / "with blanké.jsonl"


def test_without_what_speaks_to_nats_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "nats"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nats", None)

    with pytest.raises(BadTarget, match=r"install reprise\[nats\]"):
        open_sink("jetstream", "nats://broker/commits", "", around())


def test_checking_a_target_loads_no_client() -> None:
    script = (
        "import sys\n"
        "from infrastructure.sinks.targets import check_target\n"
        "check_target('jetstream', 'nats://broker/commits')\n"
        "print([name for name in ('httpx', 'nats', 'standardwebhooks') if name in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert out == "[]\n"
