"""Inbound slots: limits hold, slots are returned, and validators find room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.admission import (
    HANDSHAKE_CPU_SECONDS,
    MAX_REMEMBERED_ADDRESSES,
    SHARE_SECONDS,
    Admission,
    AdmissionLimits,
    Ticket,
)


def is_named_v(peer: str) -> bool:
    return peer == "v"


def admitted(admission: Admission, address: str, now: float = 0.0) -> Ticket:
    ticket = admission.admit(address, now)
    assert ticket is not None
    return ticket


def test_slow_loris_fills_only_its_own_share() -> None:
    admission = Admission(AdmissionLimits(max_handshakes_per_address=3, groups=()), is_named_v)
    assert [admission.admit("9.9.9.9", 0.0) is not None for _ in range(10)] == [True] * 3 + [False] * 7
    assert admission.admit("8.8.8.8", 0.0) is not None


def test_handshakes_of_all_addresses_together_are_bounded() -> None:
    admission = Admission(AdmissionLimits(max_handshakes=3, groups=()), is_named_v)
    tickets = [admission.admit(f"9.9.9.{number}", 0.0) for number in range(5)]
    assert [ticket is not None for ticket in tickets] == [True] * 3 + [False] * 2
    assert tickets[0] is not None
    admission.release(tickets[0])
    assert admission.admit("8.8.8.8", 0.0) is not None


def test_established_connections_are_capped_by_network() -> None:
    admission = Admission(AdmissionLimits(groups=((32, 128, 1), (24, 48, 2))), is_named_v)
    admission.establish(admitted(admission, "9.9.9.1"), "f")
    assert admission.admit("9.9.9.1", 0.0) is None
    admission.establish(admitted(admission, "9.9.9.2"), "f")
    assert admission.admit("9.9.9.3", 0.0) is None
    assert admission.admit("9.9.8.3", 0.0) is not None


def test_mapped_addresses_count_as_what_they_map_to() -> None:
    admission = Admission(AdmissionLimits(groups=((32, 128, 1),)), is_named_v)
    admitted(admission, "::ffff:9.9.9.9")
    assert admission.admit("9.9.9.9", 0.0) is None
    assert admission.admit("2001:db8::1%eth0", 0.0) is not None


def test_half_of_the_slots_wait_for_validators() -> None:
    admission = Admission(AdmissionLimits(max_inbound=4, reserved_for_validators=2, groups=()), is_named_v)
    unproven = [admission.establish(admitted(admission, f"9.9.9.{n}"), "f") for n in range(3)]
    proven = [admission.establish(admitted(admission, f"8.8.8.{n}"), "v") for n in range(2)]
    assert unproven == [True, True, False]
    assert proven[0]


def test_reconnecting_costs_a_token() -> None:
    admission = Admission(AdmissionLimits(connects_per_second=1.0, connect_burst=2), is_named_v)
    for _ in range(2):
        admission.release(admitted(admission, "9.9.9.9"))
    assert admission.admit("9.9.9.9", 0.0) is None
    assert admission.admit("9.9.9.9", 1.0) is not None


def test_memory_of_addresses_is_bounded() -> None:
    admission = Admission(AdmissionLimits(strangers_share=100.0), is_named_v)
    for number in range(MAX_REMEMBERED_ADDRESSES + 100):
        admission.release(admitted(admission, f"9.{number >> 16}.{number >> 8 & 255}.{number & 255}"))
    assert len(admission._connect_buckets) == MAX_REMEMBERED_ADDRESSES


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5))))
def test_every_slot_comes_back(steps: list[tuple[int, int]]) -> None:
    """Connections open, establish and close in any order. Afterwards no slot is counted."""
    admission = Admission(AdmissionLimits.devnet(), is_named_v)
    tickets: list[Ticket] = []
    for action, number in steps:
        if action == 0:
            tickets.append(admitted(admission, f"9.9.9.{number}"))
        elif tickets:
            ticket = tickets[number % len(tickets)]
            if action == 1:
                admission.establish(ticket, "fv"[number % 2])
            else:
                admission.release(ticket)
                admission.release(ticket)
                tickets.remove(ticket)
    assert len(admission) == len(tickets)
    for ticket in tickets:
        admission.release(ticket)
    assert len(admission) == 0
    assert not admission._group_counts
    assert not admission._handshake_counts


def _come_and_go(admission: Admission, network: str, seconds: range) -> int:
    """Return the handshakes of 100 addresses of a network that each try ten times a second."""
    taken = 0
    for tenth in range(seconds.start * 10, seconds.stop * 10):
        for number in range(100):
            ticket = admission.admit(f"{network}.{number}", tenth / 10)
            if ticket is not None:
                taken += 1
                admission.establish(ticket, f"new{taken}")
                admission.release(ticket)
    return taken


@pytest.mark.parametrize("limits", [AdmissionLimits(), AdmissionLimits.devnet()])
def test_n8_new_names_from_many_addresses_cost_a_share_of_the_core_together(limits: AdmissionLimits) -> None:
    admission = Admission(limits, is_named_v)
    taken = _come_and_go(admission, "9.9.9", range(20))
    share = limits.strangers_share * (20 + SHARE_SECONDS)
    assert share * 0.9 < taken * HANDSHAKE_CPU_SECONDS <= share + HANDSHAKE_CPU_SECONDS * 10


def test_n8_a_host_of_a_validator_and_one_that_was_reached_keep_their_way_in() -> None:
    admission = Admission(AdmissionLimits(), is_named_v)
    ticket = admitted(admission, "7.7.7.7")
    assert admission.establish(ticket, "v")
    admission.release(ticket)
    admission.note_reached("6.6.6.6")
    _come_and_go(admission, "9.9.9", range(1))
    assert admission.admit("5.5.5.5", 0.9) is None
    assert admission.admit("7.7.7.7", 0.9) is not None
    assert admission.admit("6.6.6.6", 0.9) is not None


def test_n8_hosts_that_were_reached_share_an_account_of_their_own() -> None:
    admission = Admission(AdmissionLimits(), is_named_v)
    for number in range(100):
        admission.note_reached(f"9.9.9.{number}")
    taken = _come_and_go(admission, "9.9.9", range(20))
    assert taken * HANDSHAKE_CPU_SECONDS <= AdmissionLimits().strangers_share * (20 + SHARE_SECONDS) + 0.035
    assert admission.admit("5.5.5.5", 19.9) is not None


def test_n8_the_memory_of_hosts_is_bounded() -> None:
    admission = Admission(AdmissionLimits(), is_named_v)
    for number in range(MAX_REMEMBERED_ADDRESSES + 100):
        admission.note_reached(f"9.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(admission._reached_hosts) == MAX_REMEMBERED_ADDRESSES


def test_an_address_is_needed() -> None:
    with pytest.raises(ValueError, match="/run/socket"):
        Admission(AdmissionLimits(), is_named_v).admit("/run/socket", 0.0)
