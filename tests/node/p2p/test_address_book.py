"""The address book: the addresses to dial, their times, removals, and priority over hearsay."""

import random

import pytest

from node.p2p.address_book import (
    MAX_BACKOFF_SECONDS,
    MAX_LEARNED,
    MAX_LEARNED_FAILURES,
    MAX_PLACES,
    AddressBook,
    Source,
)
from node.p2p.addresses import Address
from node.p2p.identity import identity_from_seed

IDS = sorted(identity_from_seed(bytes([number]) * 32).peer_id for number in range(1, 6))
LOW, OWN, HIGH = IDS[0], IDS[2], IDS[4]


def book(*, allow_private: bool = True) -> AddressBook:
    return AddressBook(OWN, random.Random(1), allow_private=allow_private)


def test_the_lower_id_dials_first() -> None:
    addresses = book()
    addresses.add(Address(LOW, "9.9.9.1", 1), 0.0, Source.GIVEN)
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, Source.GIVEN)
    assert [address.peer_id for address in addresses.due(0.0)] == [HIGH]
    assert {address.peer_id for address in addresses.due(1.0)} == {LOW, HIGH}


def test_failures_double_the_wait_up_to_a_bound_and_never_forget_a_given_address() -> None:
    addresses = book()
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, Source.GIVEN)
    waits = []
    now = 0.0
    for _ in range(40):
        addresses.on_failed(Address(HIGH, "9.9.9.2", 1), now)
        until = addresses._entries[HIGH].due_at
        waits.append(until - now)
        now = until
    assert waits[0] < waits[2] < waits[4]
    assert max(waits) <= MAX_BACKOFF_SECONDS * 1.25
    addresses.on_connected(Address(HIGH, "9.9.9.2", 1), now)
    addresses.on_lost(HIGH, now)
    assert addresses.due(now + 1.0)


def test_learned_addresses_that_never_answer_are_forgotten() -> None:
    addresses = book()
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, Source.HEARSAY)
    for _ in range(MAX_LEARNED_FAILURES + 1):
        addresses.on_failed(Address(HIGH, "9.9.9.2", 1), 0.0)
    assert len(addresses) == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "boot.example"])
def test_learned_hosts_must_be_public_outside_a_devnet(host: str) -> None:
    addresses = book(allow_private=False)
    assert not addresses.add(Address(HIGH, host, 1), 0.0, Source.HEARSAY)
    assert addresses.add(Address(HIGH, host, 1), 0.0, Source.GIVEN)


@pytest.mark.parametrize(
    ("allow_private", "host", "warnings"), [(False, "10.0.0.1", 1), (False, "127.0.0.1", 0), (True, "10.0.0.1", 0)]
)
def test_a_private_network_of_a_live_chain_is_a_warning_once(
    allow_private: bool, host: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    addresses = book(allow_private=allow_private)
    for port in (1, 2):
        addresses.add(Address(HIGH, host, port), 0.0, Source.OWN_WORD)
    assert [record.args for record in caplog.records] == [(host,)] * warnings


def test_nobody_overwrites_what_the_operator_gave_or_names_us_to_ourselves() -> None:
    addresses = book()
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, Source.GIVEN)
    assert addresses.add(Address(HIGH, "6.6.6.6", 1), 0.0, Source.HEARSAY)
    assert not addresses.add(Address(OWN, "6.6.6.6", 1), 0.0, Source.GIVEN)
    assert addresses.due(1.0) == [Address(HIGH, "9.9.9.2", 1)]


def test_the_book_is_bounded() -> None:
    addresses = book()
    for number in range(MAX_LEARNED + 10):
        addresses.add(Address(f"peer{number}", "9.9.9.9", 1), 0.0, Source.HEARSAY)
    assert len(addresses) == MAX_LEARNED
    addresses.on_failed(Address("peer0", "9.9.9.9", 1), 0.0)
    assert addresses.add(Address("late", "9.9.9.9", 1), 0.0, Source.HEARSAY)
    assert len(addresses) == MAX_LEARNED


def test_m3_hearsay_never_replaces_what_led_to_the_peer() -> None:
    addresses, true = book(), Address(HIGH, "9.9.9.2", 1)
    addresses.add(true, 0.0, Source.HEARSAY)
    assert addresses.on_connected(true, 0.0)
    assert not addresses.on_connected(true, 0.0), "no news the second time"
    for number in range(72):
        addresses.add(Address(HIGH, f"10.77.0.{number}", 1), 0.0, Source.HEARSAY)
    assert addresses.reached() == [true]
    tried, now = [], 1.0
    for _ in range(2 * MAX_PLACES):
        now += 2 * MAX_BACKOFF_SECONDS
        (address,) = addresses.due(now)
        tried.append(address)
        addresses.on_failed(address, now)
    assert tried[0] == true
    assert len(set(tried)) == MAX_PLACES
    assert tried.count(true) > 1, "it is not put off for all that was made up"


@pytest.mark.parametrize("source", [Source.HEARSAY, Source.OWN_WORD, Source.REACHED])
def test_m3_where_there_is_no_room_nothing_worse_and_nothing_that_never_failed_yields(source: Source) -> None:
    addresses = book()
    known = [Address(HIGH, f"9.9.9.{number}", 1) for number in range(MAX_PLACES)]
    for address in known:
        addresses.add(address, 0.0, source)
    assert not addresses.add(Address(HIGH, "10.77.0.1", 1), 0.0, Source.HEARSAY)
    addresses.on_failed(known[0], 0.0)
    assert addresses.add(Address(HIGH, "10.77.0.1", 1), 0.0, Source.HEARSAY) == (source is Source.HEARSAY)


def test_m3_a_peers_own_word_takes_the_place_of_hearsay() -> None:
    addresses, true = book(), Address(HIGH, "9.9.9.2", 1)
    for number in range(MAX_PLACES):
        addresses.add(Address(HIGH, f"10.77.0.{number}", 1), 0.0, Source.HEARSAY)
    assert addresses.add(true, 0.0, Source.OWN_WORD)
    assert addresses.due(1.0) == [true]


def test_a_full_book_keeps_what_led_to_peers() -> None:
    addresses = book()
    for number in range(MAX_LEARNED):
        address = Address(f"peer{number}", "9.9.9.9", 1)
        addresses.add(address, 0.0, Source.HEARSAY)
        addresses.on_connected(address, 0.0)
        addresses.on_failed(address, 0.0)
    assert not addresses.add(Address("late", "9.9.9.9", 1), 0.0, Source.HEARSAY)
