"""What every route may reach of its application."""

from starlette.requests import Request

from infrastructure.asynchronous import AsyncLedger
from infrastructure.http.settings import HttpSettings


def ledger_of(request: Request) -> AsyncLedger:
    """The ledger that the application was made for."""
    ledger = request.app.state.ledger
    assert isinstance(ledger, AsyncLedger)
    return ledger


def settings_of(request: Request) -> HttpSettings:
    """The settings that the application was made with."""
    settings = request.app.state.settings
    assert isinstance(settings, HttpSettings)
    return settings
