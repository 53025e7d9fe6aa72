"""The dev script says what is missing, repairs what is half made and leaves alone what is ready."""

import json
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "dev"


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script as a module that works in a folder of its own."""
    # Without this the import would leave a compiled copy beside the script.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = spec_from_loader("dev_script", SourceFileLoader("dev_script", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        (tmp_path / name).write_text(f"{name}\n", "utf-8")
    venv = tmp_path / ".venv"
    places = {
        "ROOT": tmp_path,
        "VENV": venv,
        "PYTHON": venv / "bin" / "python",
        "STAMP": venv / "reprise-stamp.json",
        "LOCK_WAIT": tmp_path / ".venv.lock",
    }
    for name, path in places.items():
        monkeypatch.setattr(module, name, path)
    return module


@pytest.fixture
def steps(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Collect the steps of a set-up in place of running them; making .venv only lays an interpreter."""
    taken: list[tuple[str, ...]] = []

    def take(*command: str | Path) -> None:
        taken.append(tuple(map(str, command)))
        if "venv" in command:
            dev.PYTHON.parent.mkdir(parents=True)
            dev.PYTHON.symlink_to(sys.executable)

    monkeypatch.setattr(dev, "install_step", take)
    monkeypatch.setattr(dev.shutil, "which", lambda _name: None)
    return taken


def locks_installed(steps: list[tuple[str, ...]]) -> list[str]:
    return [step[step.index("-r") + 1] for step in steps if "-r" in step]


def test_an_old_python_is_refused(dev: ModuleType) -> None:
    lack = dev.missing_piece((3, 10, 13), has_uv=True, has_ensurepip=True)

    assert lack == "Reprise needs Python 3.11 or newer and this is 3.10.13; try: python3.11 dev"


def test_a_missing_venv_package_is_named_with_its_cure(dev: ModuleType) -> None:
    lack = dev.missing_piece((3, 12, 1), has_uv=False, has_ensurepip=False)

    assert lack.endswith("apt-get install python3.12-venv")


@pytest.mark.parametrize(("has_uv", "has_ensurepip"), [(True, False), (False, True)])
def test_uv_or_venv_is_enough(dev: ModuleType, has_uv: bool, has_ensurepip: bool) -> None:
    assert dev.missing_piece((3, 11, 0), has_uv=has_uv, has_ensurepip=has_ensurepip) is None


def test_settings_that_lead_away_from_the_environment_are_dropped(dev: ModuleType) -> None:
    kept = dev.clean_environment({"PYTHONPATH": "/elsewhere", "PIP_TARGET": "/elsewhere", "HOME": "/home/me"})

    assert kept == {"HOME": "/home/me"}


def test_a_ready_environment_is_left_alone(dev: ModuleType, steps: list[tuple[str, ...]]) -> None:
    dev.set_up(dev.RUNTIME_LOCK)
    steps.clear()

    dev.set_up(dev.RUNTIME_LOCK)

    assert steps == []


def test_a_development_environment_serves_the_product_too(
    dev: ModuleType, steps: list[tuple[str, ...]]
) -> None:
    dev.set_up(dev.DEV_LOCK)
    steps.clear()

    dev.set_up(dev.RUNTIME_LOCK)

    assert steps == []


def test_the_development_tools_are_added_to_a_runtime_environment(
    dev: ModuleType, steps: list[tuple[str, ...]]
) -> None:
    dev.set_up(dev.RUNTIME_LOCK)

    dev.set_up(dev.DEV_LOCK)

    assert locks_installed(steps) == ["requirements.lock", "requirements-dev.lock"]
    assert sum("venv" in step for step in steps) == 1


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements-dev.lock"])
def test_a_change_updates_the_environment_and_keeps_the_development_tools(
    dev: ModuleType, steps: list[tuple[str, ...]], changed: str
) -> None:
    dev.set_up(dev.DEV_LOCK)
    steps.clear()
    (dev.ROOT / changed).write_text("changed\n", "utf-8")

    dev.set_up(dev.RUNTIME_LOCK)

    assert locks_installed(steps) == ["requirements-dev.lock"]
    assert not any("venv" in step for step in steps)


def test_an_interrupted_set_up_is_made_anew(
    dev: ModuleType, steps: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    take = dev.install_step

    def interrupted(*command: str | Path) -> None:
        if "-e" in command:
            raise KeyboardInterrupt
        take(*command)

    with monkeypatch.context() as patch:
        patch.setattr(dev, "install_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dev.set_up(dev.RUNTIME_LOCK)
    assert not dev.is_ready(dev.RUNTIME_LOCK)
    steps.clear()

    dev.set_up(dev.RUNTIME_LOCK)

    assert "venv" in steps[0]
    assert dev.is_ready(dev.RUNTIME_LOCK)


def test_an_environment_without_its_interpreter_is_made_anew(
    dev: ModuleType, steps: list[tuple[str, ...]]
) -> None:
    dev.set_up(dev.RUNTIME_LOCK)
    dev.PYTHON.unlink()
    dev.PYTHON.symlink_to(dev.ROOT / "gone")
    steps.clear()

    dev.set_up(dev.RUNTIME_LOCK)

    assert "venv" in steps[0]


@pytest.mark.parametrize("content", ["", "{}", "[]", json.dumps({"lock_file": "requirements.lock"})])
def test_an_unreadable_stamp_counts_as_none(
    dev: ModuleType, steps: list[tuple[str, ...]], content: str
) -> None:
    dev.set_up(dev.RUNTIME_LOCK)
    dev.STAMP.write_text(content, "utf-8")

    assert dev.present() is None


def test_the_installer_reports_on_stderr_only(
    dev: ModuleType, steps: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    dev.set_up(dev.RUNTIME_LOCK)

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "Setting up .venv from requirements.lock with pip.\n"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_every_command(dev: ModuleType, arguments: list[str]) -> None:
    told = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True, env=os.environ
    )

    assert all(f"./dev {command} " in told.stdout for command in dev.COMMANDS)


def test_an_unknown_command_is_a_usage_error(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        dev.main(["deploy"])

    assert end.value.code == dev.EXIT_USAGE
    assert "'deploy'" in capsys.readouterr().err
