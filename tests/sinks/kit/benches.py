"""The sinks that the kit is run over."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.sinks.kit.bench import Bench
from tests.sinks.kit.outside import FileBench, JetStreamBench, WebhookBench
from tests.sinks.kit.recording import RecordingBench

BENCHES: Mapping[str, Callable[[Path], Bench]] = {
    "in_process": lambda _: RecordingBench(),
    "webhook": lambda _: WebhookBench(),
    "jetstream": lambda _: JetStreamBench(),
    "file": FileBench,
}
"""By name; each is given a folder of its own."""
