"""The decisions are numbered, indexed and of one form, and what the documents name is there."""

import re
from pathlib import Path

import pytest

from infrastructure.crashpoints import NAMES

CHECKOUT = Path(__file__).parents[2]
DECISIONS = sorted(path for path in (CHECKOUT / "ADR").iterdir() if path.name != "README.md")
INDEX = (CHECKOUT / "ADR" / "README.md").read_text("utf-8")
HEADINGS = ["Status", "Context", "Properties", "Decision", "Options refused", "Consequences"]
STATUSES = ("Accepted.", "Replaced by [")
LINES_MAX = 70
"""A decision is a page at most."""
DOCUMENTS = [*DECISIONS, CHECKOUT / "ADR" / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]


def title_of(path: Path) -> str:
    """The title, without its number."""
    first = path.read_text("utf-8").splitlines()[0]
    assert first.startswith(f"# {path.name[:4]}: ")
    return first[8:]


def section(path: Path, heading: str) -> str:
    """What stands below a heading."""
    return path.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0].strip()


def test_the_numbers_have_no_gap() -> None:
    assert DECISIONS
    assert [path.name[:5] for path in DECISIONS] == [
        f"{number:04}-" for number in range(1, len(DECISIONS) + 1)
    ]


def test_the_index_lists_each_decision_with_its_title_and_status_and_no_other() -> None:
    rows = re.findall(r"^\| (\d{4}) \| \[(.+)\]\((.+)\) \| (\w+)", INDEX, re.MULTILINE)

    assert rows == [
        (path.name[:4], title_of(path), path.name, section(path, "Status").split()[0].strip("."))
        for path in DECISIONS
    ]


def test_the_story_of_the_index_names_each_decision() -> None:
    story = INDEX.split("| Number")[0]

    assert re.findall(r"\]\((\d{4}-.+?)\)", story) == [path.name for path in DECISIONS]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_each_decision_has_the_headings_in_their_order(path: Path) -> None:
    text = path.read_text("utf-8")

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert section(path, "Status").startswith(STATUSES)
    for side in ("Wanted: ", "Not wanted: "):
        assert side in section(path, "Properties")
    for side in ("Good: ", "Bad: "):
        assert side in section(path, "Consequences")
    assert all(section(path, heading) for heading in HEADINGS)


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_each_decision_fits_on_a_page(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_link_leads_to_a_file(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8"))

    assert [link for link in links if not (path.parent / link).exists()] == []


def test_each_file_that_the_architecture_names_is_there() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`((?:domain|application|infrastructure)/[\w/*.]*)`", text))

    assert named
    assert {name for name in named if not list(CHECKOUT.glob(name))} == set()


def test_the_architecture_says_what_happens_at_each_crash_point() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    table = text.split("## When the process dies")[1]

    assert {name for name in NAMES if f"`{name}`" not in table} == set()
