"""Which addresses may be called, and what a name leads to.

A name is looked up once, the answer is checked, and the connection is made to the checked address
(`infrastructure/http_client.py`), so that no second answer can lead elsewhere. (SPEC L5, P9)
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

NAT64: Final = IPv6Network("64:ff9b::/96")
"""Addresses through which a gateway leads to an IPv4 address."""


class Reach(StrEnum):
    """Who can be met at an address."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    """Of a network of its own, link-local ones and carriers' shared ones included."""
    UNUSABLE = "unusable"
    """Not one host's: unspecified, multicast, reserved."""


def reach_of(address: Address) -> Reach:
    """Where an address leads; one that carries an IPv4 address leads where that does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return reach_of(address.ipv4_mapped)
        if (far := _through_gateway(address)) is not None:
            reach = reach_of(far)
            return Reach.UNUSABLE if reach is Reach.LOOPBACK else reach
        if address.is_site_local:
            return Reach.PRIVATE
    if address.is_loopback:
        return Reach.LOOPBACK
    if address.is_link_local:
        return Reach.PRIVATE
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        return Reach.UNUSABLE
    return Reach.PUBLIC if address.is_global else Reach.PRIVATE


def _through_gateway(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a gateway or a tunnel calls in the end; its loopback is not ours."""
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else None)


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which addresses may be called beside the public ones."""

    allows_loopback: bool = False
    allows_private: bool = False

    def allows(self, address: Address) -> bool:
        match reach_of(address):
            case Reach.PUBLIC:
                return True
            case Reach.LOOPBACK:
                return self.allows_loopback
            case Reach.PRIVATE:
                return self.allows_private
            case Reach.UNUSABLE:
                return False


class RefusedAddress(Exception):
    """A host may not be called at any address it has."""

    def __init__(self, host: str, addresses: Sequence[Address]) -> None:
        reaches = " and ".join(sorted({reach_of(one) for one in addresses}))
        super().__init__(f"{host} has only addresses that may not be called ({reaches})")


class NoAddress(Exception):
    """A host name leads nowhere."""


Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Looks up a host for a port; raises NoAddress."""


async def checked_addresses(
    host: str, port: int, policy: AddressPolicy, resolve: Resolve
) -> Sequence[Address]:
    """The addresses of a host that may be called, best first; raises RefusedAddress or NoAddress."""
    literal = literal_address(host)
    found = [literal] if literal is not None else list(await resolve(host, port))
    if not found:
        raise NoAddress(f"{host} has no address")
    allowed = [address for address in found if policy.allows(address)]
    if not allowed:
        raise RefusedAddress(host, found)
    return allowed


def literal_address(host: str) -> Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback_host(host: str) -> bool:
    """Whether a host is this machine by the way it is written, without asking anybody."""
    address = literal_address(host)
    if address is not None:
        return reach_of(address) is Reach.LOOPBACK
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


async def resolve(host: str, port: int) -> Sequence[Address]:
    """Ask the system.

    The question is asked in a thread that nobody waits for: a name server that is down may hold it for
    longer than a stop may take.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[Address]] = loop.create_future()

    def give(addresses: Sequence[Address], error: Exception | None) -> None:
        if answer.done():
            return  # Whoever asked has given up.
        if error is None:
            answer.set_result(addresses)
        else:
            answer.set_exception(error)

    def ask() -> None:
        addresses: Sequence[Address] = ()
        error: Exception | None = None
        try:
            addresses = _look_up(host, port)
        except (OSError, UnicodeError) as trouble:
            error = NoAddress(f"{host} cannot be looked up: {_plain(trouble)}")
        with contextlib.suppress(RuntimeError):  # The loop is closed, and so is the question.
            loop.call_soon_threadsafe(give, addresses, error)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return await answer


def _look_up(host: str, port: int) -> Sequence[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(where[0]) for *_, where in found))


def _plain(trouble: OSError | UnicodeError) -> str:
    return (trouble.strerror if isinstance(trouble, OSError) else None) or "that is no host name"
