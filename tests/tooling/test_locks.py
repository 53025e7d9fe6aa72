"""The locks install the same files everywhere and name no place to get them from."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(lock_file: str) -> dict[str, str]:
    """Read a lock as name to everything that is said about it, hashes included."""
    text = (ROOT / lock_file).read_text("utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#")]
    return {line.partition("==")[0]: line for line in lines if line.strip()}


def pins(lock_file: str) -> dict[str, str]:
    """Read a lock as name to pinned version."""
    return {name: line.split()[0] for name, line in requirements(lock_file).items()}


@pytest.mark.parametrize("lock_file", LOCKS)
def test_every_requirement_is_pinned_and_hashed(lock_file: str) -> None:
    for name, line in requirements(lock_file).items():
        assert re.match(rf"{re.escape(name)}==\S+ ", line), line
        assert HASH.search(line), f"{name} has no hash"


@pytest.mark.parametrize("lock_file", LOCKS)
def test_a_lock_names_no_host(lock_file: str) -> None:
    text = (ROOT / lock_file).read_text("utf-8")

    assert "://" not in text
    assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host", text)


def test_the_development_lock_holds_all_of_the_other() -> None:
    assert pins("requirements.lock").items() <= pins("requirements-dev.lock").items()


def test_the_build_backend_is_in_both_locks() -> None:
    assert all("hatchling" in requirements(lock_file) for lock_file in LOCKS)


def test_each_declared_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()

    def names(declared: list[str]) -> set[str]:
        return {re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower() for requirement in declared}

    assert names(project["dependencies"]) <= pins("requirements.lock").keys()
    for extra in extras:
        assert names(extra) <= pins("requirements-dev.lock").keys()
