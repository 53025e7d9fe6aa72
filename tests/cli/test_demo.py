"""`./dev run` fills a store of the checkout with the sample and shows it."""

import json
from pathlib import Path

import pytest

from infrastructure import demo
from tests.cli.conftest import SAMPLE, run


def test_it_shows_the_sample_and_where_it_lies(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        demo.show(SAMPLE, tmp_path / "shown")

        out = capfd.readouterr().out
        assert "Find naive times" in out
        assert "./dev reprise --db " in out
        deltas = (tmp_path / "shown" / "deltas.jsonl").read_text().splitlines()
        assert len({json.loads(line)["transactionId"] for line in deltas}) == len(deltas) == 6

    url = f"sqlite:///{tmp_path / 'shown' / 'sample.db'}"
    assert len(run("--db", url, "sessions", "list", "--json").lines) == 6
    assert run("--db", url, "sessions", "show", demo.INTERESTING).code == 0
    assert run("--db", url, "verify").code == 0
