"""Writes the OpenAPI document of the service: `python -m tests.http.document docs/openapi.json`."""

import asyncio
import json
import sys
from pathlib import Path

from infrastructure.http.app import create_app
from infrastructure.main import open_ledger_async


def document() -> str:
    """The document as it is committed."""

    async def made() -> str:
        async with open_ledger_async("memory://") as ledger:
            return json.dumps(create_app(ledger).openapi(), indent=1, ensure_ascii=False) + "\n"

    return asyncio.run(made())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), "utf-8")
