"""The PostgreSQL server that tests use, and a schema of its own for each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from uuid import uuid4

import psycopg
import pytest

SERVER = os.environ.get("REPRISE_TEST_POSTGRES", "postgresql://root@127.0.0.1:5432/test")
_REQUIRED = os.environ.get("REPRISE_REQUIRE_SERVICES") == "1"


@cache
def _missing() -> str:
    """Why the server cannot be used; blank when it can."""
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.Error as error:
        return f"no PostgreSQL server for tests (REPRISE_TEST_POSTGRES): {error}"
    return ""


def ask(statement: str, *parameters: object) -> list[tuple[object, ...]]:
    """Run a statement beside everything else; its rows, if it gives any."""
    with psycopg.connect(SERVER, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres_url() -> Iterator[str]:
    """A place for a store on the server, in a schema that is gone in the end."""
    if _missing():
        (pytest.fail if _REQUIRED else pytest.skip)(_missing())
    schema = f"test_{uuid4().hex}"
    try:
        yield f"{SERVER}{'&' if '?' in SERVER else '?'}schema={schema}"
    finally:
        ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
