"""Importing a large folder of transcripts of three agents, killed in between, and again."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from infrastructure.main import open_ledger
from tests.benchmarks.figures import Figure, Table
from tests.benchmarks.reports import TEXT
from tests.infrastructure.transcripts.codex_script import CodexScript
from tests.infrastructure.transcripts.script import Script

FILES = int(os.environ.get("REPRISE_BENCH_FILES", "3000"))
FILE_BYTES = 1_000_000_000 // 3_000
LONG_EACH = 100
"""Of so many files one is LONG_TIMES as long as the others."""
LONG_TIMES = 30
KILLED_AFTER_S = 10
RSS_BYTES_MAX = 300 * 2**20


def claude(number: int, size: int) -> bytes:
    script = Script(f"5e55aaaa-0000-4000-8000-{number:012d}")
    turn = 0
    while True:
        script.user(f"step {turn}: {TEXT[:200]}")
        script.text(f"m{turn}a", TEXT[:400], output=20)
        script.call(f"m{turn}a", f"call-{number}-{turn}", command="ls -l " + TEXT[:80])
        script.result(f"call-{number}-{turn}", TEXT[:1200])
        script.text(f"m{turn}b", f"done with {turn}")
        turn += 1
        if (turn % 50 == 0 or turn * 3_400 > size) and len(script.data) >= size:
            return script.data


def codex(number: int, size: int) -> bytes:
    script = CodexScript(f"0d00aaaa-0000-7000-8000-{number:012d}", step_ms=10)
    script.meta()
    turn = 0
    while turn % 50 or len(script.data) < size:
        script.at_ms %= 3_000_000
        script.started(f"t{turn}")
        script.user(f"step {turn}: {TEXT[:200]}")
        script.thinks(TEXT[:300])
        script.call(f"c{turn}", arguments=json.dumps({"cmd": TEXT[:80]}))
        script.output(f"c{turn}", TEXT[:1200])
        script.says(f"done with {turn}")
        script.tokens(1000, 20)
        script.complete(f"t{turn}")
        turn += 1
    return script.data


def gemini(number: int, size: int) -> bytes:
    rows: list[object] = [{"sessionId": f"9e31aaaa-{number}", "projectHash": "h"}]
    written = turn = 0
    while written < size:
        at = f"2026-05-01T10:{turn // 60 % 60:02d}:{turn % 60:02d}.000Z"
        call = {"id": f"c{turn}", "name": "sh", "args": {"command": TEXT[:80]}, "status": "executing"}
        answer = {"id": f"m{turn}", "timestamp": at, "type": "gemini", "content": TEXT[:300]}
        done = [{"functionResponse": {"response": {"output": TEXT[:1200]}}}]
        told = [
            {"id": f"u{turn}", "timestamp": at, "type": "user", "content": [{"text": TEXT[:200]}]},
            answer,
            answer | {"toolCalls": [call]},
            answer | {"toolCalls": [call | {"status": "success", "result": done}], "tokens": {"input": 9}},
            {"$set": {"lastUpdated": at}},
        ]
        rows += told
        written += sum(len(json.dumps(row)) for row in told)
        turn += 1
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def fill(home: Path) -> tuple[int, int]:
    """Write the files as the agents would; how many records and bytes."""
    makes = {
        "claude": (claude, home / ".claude" / "projects" / "p", "5e55aaaa-0000-4000-8000-{:012d}.jsonl"),
        "codex": (
            codex,
            home / ".codex" / "sessions" / "2026",
            "rollout-x-0d00aaaa-0000-7000-8000-{:012d}.jsonl",
        ),
        "gemini": (gemini, home / ".gemini" / "tmp" / "p" / "chats", "session-{}.jsonl"),
    }
    records = size = 0
    short = FILE_BYTES * LONG_EACH // (LONG_EACH - 1 + LONG_TIMES)
    for number in range(FILES):
        make, folder, name = makes[("claude", "codex", "gemini")[number % 3]]
        folder.mkdir(parents=True, exist_ok=True)
        data = make(number, short * LONG_TIMES if number % LONG_EACH == 0 else short)
        (folder / name.format(number)).write_bytes(data)
        records += data.count(b"\n")
        size += len(data)
    return records, size


def command(home: Path, store: Path) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"HOME": str(home)}
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        environment.pop(name, None)
    line = [sys.executable, "-m", "tests.cli.command", "--db", f"sqlite:///{store}", "import", "--json"]
    return subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_once(home: Path, store: Path) -> tuple[dict[str, int], float]:
    start = time.perf_counter()
    process = command(home, store)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out), time.perf_counter() - start


def run(table: Table, folder: Path) -> None:
    home = folder / "home"
    records, size = fill(home)
    start = time.perf_counter()
    killed = command(home, folder / "import.db")
    time.sleep(KILLED_AFTER_S)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = time.perf_counter() - start
    counts, wall_s = run_once(home, folder / "import.db")
    rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    again, second_s = run_once(home, folder / "import.db")
    assert again["events"] == 0
    with open_ledger(f"sqlite:///{folder}/import.db") as ledger:
        assert len(ledger.sessions()) == FILES
    rate = records / (before + wall_s)
    beside = (
        f"{FILES:,} files, {size / 1e6:,.0f} MB, {records:,} records, killed once, {before + wall_s:.0f} s"
    )
    table.add(Figure("import of a folder", f"{rate:,.0f} records/s", ">= 5,000/s", rate >= 5_000, beside))
    table.add(
        Figure("largest process meanwhile", f"{rss / 2**20:,.0f} MB", "<= 300 MB", rss <= RSS_BYTES_MAX)
    )
    table.add(Figure("the folder again", f"{second_s:.1f} s", "<= 5 s", second_s <= 5))
    table.add(Figure("news after the kill", f"{counts['sessions']:,} sessions"))
