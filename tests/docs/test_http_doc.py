"""docs/http.md tells every route and every problem, and none that is not there."""

import json
import re
from pathlib import Path

from infrastructure.http.problems import KINDS

DOCS = Path(__file__).parents[2] / "docs"
TOLD = (DOCS / "http.md").read_text("utf-8")


def test_each_route_is_told_and_no_other() -> None:
    paths = json.loads((DOCS / "openapi.json").read_text("utf-8"))["paths"]
    served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}

    told = set(re.findall(r"`((?:GET|POST|DELETE) /[^`]*)`", TOLD))
    assert told == served | {"GET /openapi.json"}


def test_each_problem_is_told_with_its_status_and_no_other() -> None:
    table = TOLD.split("\n## Problems\n")[1]

    told = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", table, re.MULTILINE))
    assert told == {slug: str(kind.status) for slug, kind in KINDS.items()}
