"""Which addresses may be called."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from infrastructure.addresses import (
    Address,
    AddressPolicy,
    NoAddress,
    Reach,
    RefusedAddress,
    checked_addresses,
    is_loopback_host,
    reach_of,
    resolve,
)

ADDRESSES = {
    Reach.PUBLIC: ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
    Reach.LOOPBACK: ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"],
    Reach.PRIVATE: [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "fec0::1"),
        *("169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
    ],
    Reach.UNUSABLE: [
        *("0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1"),
        *("64:ff9b::7f00:1", "2002:7f00:1::", "4000::1"),
    ],
}


@pytest.mark.parametrize(
    ("reach", "text"), [(reach, text) for reach, texts in ADDRESSES.items() for text in texts]
)
def test_an_address_leads_where_it_leads_in_the_end(reach: Reach, text: str) -> None:
    """P9: an address that carries another one in it counts as that."""
    assert reach_of(ip_address(text)) is reach


@pytest.mark.parametrize(
    ("policy", "reaches"),
    [
        (AddressPolicy(), {Reach.PUBLIC}),
        (AddressPolicy(allows_loopback=True), {Reach.PUBLIC, Reach.LOOPBACK}),
        (AddressPolicy(allows_private=True), {Reach.PUBLIC, Reach.PRIVATE}),
        (AddressPolicy(True, True), {Reach.PUBLIC, Reach.LOOPBACK, Reach.PRIVATE}),
    ],
)
def test_a_policy_allows_public_addresses_and_what_it_names(
    policy: AddressPolicy, reaches: set[Reach]
) -> None:
    allowed = {reach for reach, texts in ADDRESSES.items() if policy.allows(ip_address(texts[0]))}

    assert allowed == reaches


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "api.localhost", "127.1.2.3", "::1"])
def test_a_host_may_be_written_as_this_machine(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ["remote.example", "localhost.example", "10.0.0.1", "notlocalhost", ""])
def test_other_hosts_are_not_this_machine(host: str) -> None:
    assert not is_loopback_host(host)


def checked(host: str, policy: AddressPolicy, *answer: str) -> Sequence[str]:
    async def look_up(host: str, port: int) -> Sequence[Address]:
        return [ip_address(text) for text in answer]

    return [str(one) for one in asyncio.run(checked_addresses(host, 443, policy, look_up))]


def test_of_an_answer_only_the_allowed_addresses_are_kept() -> None:
    assert checked("mixed.example", AddressPolicy(), "10.0.0.1", "1.1.1.1", "::1", "1.0.0.1") == [
        "1.1.1.1",
        "1.0.0.1",
    ]


def test_a_name_with_none_but_refused_addresses_is_refused() -> None:
    with pytest.raises(RefusedAddress, match=r"^inner\.example .*\(loopback and private\)$"):
        checked("inner.example", AddressPolicy(), "10.0.0.1", "::1")


def test_an_address_needs_no_look_up() -> None:
    assert checked("1.1.1.1", AddressPolicy()) == ["1.1.1.1"]
    with pytest.raises(RefusedAddress):
        checked("169.254.169.254", AddressPolicy(allows_loopback=True), "1.1.1.1")


def test_a_name_without_address_leads_nowhere() -> None:
    with pytest.raises(NoAddress):
        checked("nobody.example", AddressPolicy())


def test_the_system_knows_this_machine_by_name() -> None:
    found = asyncio.run(resolve("localhost", 80))

    assert found
    assert {reach_of(address) for address in found} == {Reach.LOOPBACK}


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "no such host", "."])
def test_what_is_no_name_leads_nowhere(host: str) -> None:
    with pytest.raises(NoAddress, match="cannot be looked up"):
        asyncio.run(resolve(host, 80))
