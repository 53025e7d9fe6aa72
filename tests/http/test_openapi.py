"""What the OpenAPI document says is so: it is committed, complete, and a fuzzer finds nothing against it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infrastructure.http.problems import KINDS, MEDIA_TYPE
from tests.http.document import document
from tests.http.listening import listening

CHECKOUT = Path(__file__).parents[2]
COMMITTED = CHECKOUT / "docs" / "openapi.json"
EXAMPLES = "100" if os.environ.get("REPRISE_LONG") == "1" else "1"
"""Requests that are made up for each operation, beside those that cover each rule of its schema."""


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of each operation."""
    for path, methods in json.loads(document())["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_committed_document_is_that_of_the_code() -> None:
    """Otherwise run: python -m tests.http.document docs/openapi.json."""
    assert COMMITTED.read_text("utf-8") == document()


def test_each_refusal_is_documented_as_a_problem_and_each_reference_leads_somewhere() -> None:
    found = document()
    schemas = json.loads(found)["components"]["schemas"]
    for path, method, operation in operations():
        refusals = {status: said for status, said in operation["responses"].items() if status >= "400"}
        assert "500" in refusals, (path, method)
        for status, said in refusals.items():
            assert list(said["content"]) == [MEDIA_TYPE], (path, method, status)
            assert any(f"`{kind.slug}`" in said["description"] for kind in KINDS.values())
    for part in found.split('"$ref": "#/components/schemas/')[1:]:
        assert part.split('"')[0] in schemas


def test_each_operation_has_a_name_of_its_own_and_a_sentence() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    assert all(operation["description"].split("\n")[0].endswith(".") for _, _, operation in operations())


@pytest.mark.slow
def test_a_fuzzer_finds_no_failure() -> None:
    """schemathesis over every operation, over a real socket; what it may not mind is in schemathesis.toml."""
    here = Path(__file__).parent
    command = [
        *(str(Path(sys.executable).with_name("st")), "--config-file", str(here / "schemathesis.toml"), "run"),
        *("--seed", "1", "--max-examples", EXAMPLES, "--no-color", "--warnings", "off"),
        *("--generation-database", "none", "--workers", "2"),
    ]
    with listening("memory://") as address:
        ended = subprocess.run(
            [*command, f"{address}/openapi.json"],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(here)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout[-8_000:] + ended.stderr[-2_000:]
