"""The history of an account: which events are about it, and by what each line is shown."""

from __future__ import annotations

import asyncio
import csv
import dataclasses
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.chain_time import ChainTime
from cli.output import Account, as_text
from cli.wallet.history import BLOCK, WORD, WORDS, BlockReading, as_csv, concerns, more_of
from genesis.chain import runtime_of
from genesis.presets import load_spec
from runtime.blocks.era import IMMORTAL
from runtime.blocks.extrinsic import Extra, MultiSignature, encode_signed
from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.pallets.balances import Balances, Transfer
from runtime.pallets.pots import STAKES
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.utility import Utility
from wallet.amounts import Grains
from wallet.answers import BlockBody
from wallet.client import ChainClient
from wallet.rpc import RpcError

ME, HER, FIRST, SECOND = (bytes([number]) * 32 for number in (1, 2, 3, 4))
BEHIND = frozenset({FIRST})
RUNTIME = runtime_of(load_spec("dev"))
TIME = ChainTime(100, 1_700_000_040_000, 48_000, 48, 60, 1)


@pytest.mark.parametrize(
    ("event", "is_mine"),
    [
        (ev.Bonded(ME, 5), True),
        (ev.Bonded(FIRST, 5), False),
        (ev.Delegated(ME, SECOND, 5), True),
        (ev.Delegated(HER, FIRST, 5), False),
        (ev.Unbonded(ME, FIRST, 5, 9), True),
        (ev.Withdrawn(ME, 5), True),
        (ev.Rewarded(ME, FIRST, 5), True),
        (ev.Rewarded(HER, FIRST, 5), False),
        (ev.Redelegated(ME, FIRST, SECOND, 5), True),
        (Transfer(HER, ME, 5), True),
        (Transfer(HER, FIRST, 5), False),
        (Transfer(ME, STAKES, 5), False),
        (ev.StakeSlashed(FIRST, HER, 5), True),
        (ev.StakeSlashed(SECOND, HER, 5), False),
        (ev.StakeSlashed(SECOND, ME, 5), True),
        (ev.SlashHeld(0, FIRST, 1, SlashStep(0, 50_000), 2), True),
        (ev.SlashHeld(0, SECOND, 1, SlashStep(0, 50_000), 2), False),
        (ev.SlashTaken(0, FIRST, 5), True),
        (ev.CommissionAnnounced(FIRST, 60_000, 7), True),
        (ev.CommissionAnnounced(SECOND, 60_000, 7), False),
        (ev.ProfileSet(FIRST, b"", b""), False),
        (ev.EraStarted(1, (), 5), False),
    ],
)
def test_what_is_about_an_account(event: Any, is_mine: bool) -> None:
    assert concerns(event, ME, BEHIND) == is_mine


@pytest.mark.parametrize("leaving", [ev.Unbonded(ME, SECOND, 5, 9), ev.Redelegated(ME, SECOND, FIRST, 5)])
def test_a_slash_stays_in_the_history_when_the_stake_has_left(leaving: Any) -> None:
    """Delegators leave after a slash, and look for it then."""
    slash, held = ev.StakeSlashed(SECOND, STAKES, 5), ev.SlashHeld(0, SECOND, 1, SlashStep(0, 50_000), 2)
    newest_first = {b"later": [slash], b"left": [leaving], b"slashed": [slash], b"held": [held]}
    found, _ = rows(KeepingClient(newest_first), *newest_first)
    assert [row["block"] for row in found] == [99, 98, 97]
    in_one_block, _ = rows(KeepingClient({b"both": [slash, leaving]}), b"both")
    assert len(in_one_block) == 2, "evidence comes before transactions"
    of_another = {
        b"left": [dataclasses.replace(leaving, **{"staker" if hasattr(leaving, "staker") else "delegator": HER})]
    }
    assert not rows(KeepingClient(of_another | {b"slashed": [slash]}), b"left", b"slashed")[0]


def test_every_event_of_stake_but_the_turn_of_an_era_has_words() -> None:
    assert set(WORDS) - {Transfer} == set(TrustStake.events) - {ev.EraStarted, ev.SetElected}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ev.Unbonded(ME, FIRST, 5, 9), "free from epoch 9 on"),
        (ev.CommissionAnnounced(FIRST, 62_500, 7), "6.25 % from era 7 on"),
        (ev.Redelegated(ME, FIRST, SECOND, 5), f"from behind {ss58.encode(FIRST)}"),
        (ev.SlashHeld(0, FIRST, 1, SlashStep(0, 562_500), 2), "up to 56.25 % of its stake, in era 2"),
        (ev.SlashTaken(0, FIRST, 5), "of all its stake"),
        (ev.StakeSlashed(FIRST, STAKES, 5), "the pool of all delegators"),
        (ev.StakeSlashed(FIRST, ME, 5), f"what {as_text(Account(ME))} took out of it before"),
        (ev.StakeSlashed(FIRST, FIRST, 5), None),
        (ev.ProfileSet(FIRST, b"Bob", b""), "Bob"),
        (ev.ProfileSet(FIRST, b"Bob\nerror: pay", b""), "Bob error: pay"),
        (ev.ProfileSet(FIRST, b"", b""), "nothing any more"),
        (ev.Bonded(ME, 5), None),
    ],
)
def test_what_else_there_is_to_say(event: Any, text: str | None) -> None:
    assert more_of(event) == text


def signed(call: Call, who: bytes = ME) -> bytes:
    return encode_signed(RUNTIME, call, Extra(IMMORTAL, 0, 0), who, MultiSignature(Scheme.SR25519, bytes(64)))


class KeepingClient:
    """Has the events of some blocks, and every block's extrinsics."""

    def __init__(self, events: Mapping[bytes, Sequence[Any]], extrinsics: Sequence[bytes] = ()) -> None:
        self.runtime = RUNTIME
        self._events, self._extrinsics = events, tuple(extrinsics)
        self.asked: list[bytes] = []

    def unverified(self) -> KeepingClient:
        return self

    async def events(self, block: bytes) -> tuple[Any, ...]:
        self.asked.append(block)
        if block not in self._events:
            raise RpcError(4003, "State already discarded")
        return tuple(SimpleNamespace(event=event) for event in self._events[block])

    async def block(self, _block: bytes) -> BlockBody:
        return BlockBody(1, b"", self._extrinsics)


def rows(client: KeepingClient, *blocks: bytes) -> tuple[list[dict[str, Any]], BlockReading]:
    reading = BlockReading(cast("ChainClient", client), ME, BEHIND, TIME)

    async def read() -> list[dict[str, Any]]:
        return [row for place, block in enumerate(blocks) for row in await reading.rows(100 - place, block)]

    return asyncio.run(read()), reading


def test_an_event_is_a_line() -> None:
    found, _ = rows(KeepingClient({b"a": [ev.Rewarded(ME, FIRST, 7), ev.Rewarded(HER, FIRST, 9)]}), b"a")
    assert found == [
        {
            "block": 100,
            "about": "2023-11-14 22:14 UTC",
            "what": "was paid rewards",
            "is_own": True,
            "behind": Account(FIRST),
            "other_account": Account(FIRST),
            "amount": Grains(7),
            "more": None,
            "shown_by": WORD,
        }
    ]


def test_a_block_without_events_shows_what_was_signed_and_no_older_one_is_asked() -> None:
    moved = TrustStake.redelegate(source=FIRST, target=SECOND, value=3)
    batch = Utility.batch_all(calls=(TrustStake.claim(validator=FIRST), Balances.burn(value=1, keep_alive=True)))
    extrinsics = [signed(moved), signed(batch), signed(TrustStake.bond(value=9), HER), b"\x00"]
    client = KeepingClient({b"a": [], b"c": [ev.Bonded(ME, 5)]}, extrinsics)
    found, reading = rows(client, b"a", b"b", b"c")
    assert [(row["block"], row["what"], row["behind"], row["amount"]) for row in found] == [
        (99, "signed redelegate", SECOND, 3),
        (99, "signed claim", FIRST, None),
        (99, "signed burn", None, 1),
        (98, "signed redelegate", SECOND, 3),
        (98, "signed claim", FIRST, None),
        (98, "signed burn", None, 1),
    ]
    assert {row["shown_by"] for row in found} == {BLOCK}
    assert (reading.without_events, client.asked) == (2, [b"a", b"b"])


def test_whose_doing_it_was() -> None:
    taken = ev.SlashTaken(0, FIRST, 5)
    found, _ = rows(KeepingClient({b"a": [taken, ev.Withdrawn(ME, 2)]}), b"a")
    assert [row["is_own"] for row in found] == [False, True]


def test_an_older_block_was_earlier() -> None:
    reading = BlockReading(cast("ChainClient", KeepingClient({})), ME, BEHIND, TIME)
    assert [reading._placed({}, height, WORD)["about"] for height in (100, 40)] == [
        "2023-11-14 22:14 UTC",
        "2023-11-14 22:13 UTC",
    ]


def test_a_spreadsheet_gets_decimals_of_the_unit_in_its_header() -> None:
    pulled = [Transfer(ME, HER, 150_000_000), ev.SlashTaken(0, FIRST, 5), ev.ProfileSet(ME, b"=1+1", b"")]
    found, _ = rows(KeepingClient({b"a": pulled}), b"a")
    header, *lines = csv.reader(as_csv(found).splitlines())
    assert header == ["time_utc", "block", "kind", "other_account", "amount_oGPU", "own", "shown_by"]
    assert lines[0] == ["2023-11-14 22:14", "100", "sent", ss58.encode(HER), "1.5", "yes", WORD]
    assert lines[1][3:6] == [ss58.encode(FIRST), "0.00000005", "no"]
    assert not any(cell.startswith("=") for cell in lines[2]), "a spreadsheet runs a formula"


def test_the_other_side_of_a_transfer_and_of_a_signed_call() -> None:
    sent = Balances.transfer_keep_alive(dest=HER, value=3)
    client = KeepingClient({b"a": [Transfer(HER, ME, 5), Transfer(ME, HER, 5)]}, [signed(sent)])
    found, _ = rows(client, b"a", b"b")
    assert [(row["what"], row["other_account"]) for row in found] == [
        ("received", HER),
        ("sent", HER),
        ("signed transfer_keep_alive", HER),
    ]
