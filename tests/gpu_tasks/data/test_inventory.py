"""Inventories: their signers, their lifetime, and invalid ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.blob_client import BYTES_MIN, TransferRates
from gpu_tasks.data.inventory import (
    AHEAD_MS,
    DEVICES_MAX,
    INVENTORY_BYTES_MAX,
    OLD_MS,
    TEXT_BYTES_MAX,
    ClaimedDevice,
    ClaimedMachine,
    InventoryError,
    MachineInventory,
    claim_text,
    read_inventory,
    sign_inventory,
)
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

KEY, OTHER = (Keypair.from_seed(Scheme.ED25519, seed * 32) for seed in (b"p", b"q"))
GENESIS, NOW = b"g" * 32, 1_000_000_000
DEVICE = ClaimedDevice(
    b"h" * 32, "NVIDIA", "NVIDIA GeForce RTX 4090", 24_564, "550.54.14", "cuda", "12.4", is_processor=False
)
MACHINE = ClaimedMachine("AMD EPYC", 16, 65_536, 500_000, 900_000, 0)
INVENTORY = MachineInventory(2, KEY.public_key, NOW, MACHINE, (DEVICE,))
SIGNED = sign_inventory(INVENTORY, GENESIS, KEY.sign)


def test_an_inventory_is_its_provider_s_word() -> None:
    assert read_inventory(SIGNED, GENESIS, NOW) == INVENTORY
    assert read_inventory(SIGNED, GENESIS, NOW + OLD_MS) == INVENTORY
    assert read_inventory(SIGNED, GENESIS, NOW - AHEAD_MS) == INVENTORY


@pytest.mark.parametrize(
    ("raw", "now", "why"),
    [
        (b"", NOW, "not an inventory"),
        (SIGNED[:-1], NOW, "not an inventory"),
        (SIGNED + b"\0", NOW, "not an inventory"),
        (SIGNED[:-1] + bytes((SIGNED[-1] ^ 1,)), NOW, "wrong signature"),
        (sign_inventory(INVENTORY, GENESIS, OTHER.sign), NOW, "wrong signature"),
        (sign_inventory(INVENTORY, b"o" * 32, KEY.sign), NOW, "wrong signature"),
        (sign_inventory(replace(INVENTORY, version=3), GENESIS, KEY.sign), NOW, "of version 3"),
        (SIGNED, NOW + OLD_MS + 60_000, "11 minutes old"),
        (SIGNED, NOW - AHEAD_MS - 1, "a future time"),
        (bytes(INVENTORY_BYTES_MAX + 1), NOW, "more than 32,768"),
    ],
)
def test_what_is_none_is_said(raw: bytes, now: int, why: str) -> None:
    with pytest.raises(InventoryError, match=why):
        read_inventory(raw, GENESIS, now)


@given(place=st.integers(0, len(SIGNED) - 1), bit=st.integers(0, 7))
def test_no_changed_bit_counts(place: int, bit: int) -> None:
    changed = bytearray(SIGNED)
    changed[place] ^= 1 << bit
    with pytest.raises(InventoryError):
        read_inventory(bytes(changed), GENESIS, NOW)


def test_the_greatest_inventory_fits() -> None:
    long = "x" * TEXT_BYTES_MAX
    device = ClaimedDevice(b"h" * 32, long, long, 2**32 - 1, long, long, long, is_processor=False)
    machine = ClaimedMachine(long, 1, 1, 1, 1, 1)
    whole = replace(INVENTORY, machine=machine, devices=(device,) * DEVICES_MAX)
    signed = sign_inventory(whole, GENESIS, KEY.sign)
    assert len(signed) <= INVENTORY_BYTES_MAX
    assert read_inventory(signed, GENESIS, NOW) == whole


@given(st.text())
def test_a_text_of_a_claim_is_bounded_and_commands_no_terminal(text: str) -> None:
    found = claim_text(text)
    assert len(found.encode()) <= TEXT_BYTES_MAX
    assert found.isprintable()


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ("x" * TEXT_BYTES_MAX, "x" * TEXT_BYTES_MAX),
        ("x" * (TEXT_BYTES_MAX + 1), "x" * (TEXT_BYTES_MAX - 3) + "…"),
        ("word " * 17, "word " * 14 + "word…"),
        ("  two words\n", "two words"),
    ],
)
def test_a_long_text_of_a_claim_ends_after_a_word(text: str, claimed: str) -> None:
    assert claim_text(text) == claimed


def test_rates_are_of_transfers_that_say_something() -> None:
    rates = TransferRates()
    rates.note(1.0, sent=0, received=BYTES_MIN - 1)
    rates.note(0.0, sent=0, received=BYTES_MIN)
    assert (rates.down_kbit, rates.up_kbit) == (0, 0)
    rates.note(1.0, sent=0, received=1_000_000)
    rates.note(2.0, sent=0, received=1_000_000)
    rates.note(4.0, sent=1_000_000, received=64)
    assert (rates.down_kbit, rates.up_kbit) == (8_000, 2_000)
