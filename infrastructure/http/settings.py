"""How the HTTP side of the service behaves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What whoever starts the service may choose."""

    read_only: bool = False
    """Whether reports and commands are refused."""
    require_if_match: bool = False
    """Whether a command on a session has to say which version it means (428 without)."""
    body_bytes_max: int = 5 * 2**20
    """Bytes of one request's body (SPEC W3)."""
    import_bytes_max: int = 2**30
    """Bytes of the body of one bulk import, which is read line by line."""
    retry_after_s: int = 1
    """What a caller is told to wait when the service has too much to do."""
