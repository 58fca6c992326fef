"""Outcomes of a unit: completions from real stores, and payments to the grain."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from cli.chain_time import ChainTime
from error_codes import raises_code
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest, encode_outcomes
from gpu_tasks.batches.requests import encode_requests
from gpu_tasks.client.units.results import (
    OF_CUSTOMER,
    REASONS,
    Completion,
    ResultError,
    UnitPayment,
    answer_rows,
    completions_of,
    cost_of,
    payments_of,
    progress,
    why_refunded,
    winner_of,
)
from gpu_tasks.client.units.watch import WHOLE_IDS_SHOWN, FollowedUnit, FollowedUnits, _shortened, _table, whole_ids
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.data.unit_output import output_of
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import check_fee
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.market.inference.units import Racer, Refund, Reveal, Unit, UnitState, UnitTerms, is_open
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import DecodeError
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import CUSTOMER, OGPU, named_keys, signed, terms
from unit_cases import RIGHT, WRONG, declined_twice, judged, raced
from wallet.keypair import Keypair
from watched_chain import KeptNode, WatchedChain

# Completions out of a real blob store; the chain is a fake that answers one question.


KEY = Keypair.from_seed(Scheme.SR25519, b"c" * 32)
STRANGER = Keypair.from_seed(Scheme.SR25519, b"e" * 32)
GENESIS, UNIT, SALT = b"g" * 32, b"u" * 32, b"s" * 32
WORKLOAD = b"w" * 32
CONTENT = encode_input(SALT, SealKey.of(KEY).public, b"prompt")
INPUT = seal(CONTENT, [SealKey.of(KEY).public])
SEALED_TO_ANOTHER = seal(CONTENT, [SealKey.of(STRANGER).public])
OUTPUT = b" answer"
ROOT = output_of(GENESIS, UNIT, SALT, [Completed(OUTPUT, 6, len(OUTPUT))]).root
SERVICE = Service(bytes(32), ServiceTerms(b"any", WORKLOAD, bytes(32), 1, 2, 0, 30, 64), 0)
TERMS = UnitTerms(100, 2, address_of(INPUT), commitment_of(CONTENT), 0, 64)


class FakeClient:
    genesis_hash = GENESIS


class Quoting:
    """A form that no program has heard of."""

    workload_id = WORKLOAD

    def show_request(self, request: bytes) -> str:
        if request.startswith(b"!"):
            raise DecodeError("no request")
        return f"<{request.decode()}>"

    def show_output(self, output: bytes) -> str:
        return f"<{output.decode()}>"


def racer(owner: bytes, output: bytes, root: bytes = ROOT) -> tuple[Racer, bytes]:
    blob = seal(encode_outcomes([Completed(output, 6, len(output))]), [SealKey.of(KEY).public])
    reveal = Reveal(root, address_of(blob), len(output), 30)
    return Racer(owner, owner, 25, b"h" * 32, 25, reveal), blob


def read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unit: Unit,
    stored: list[bytes],
    key: Keypair = KEY,
    services: dict[int, Service] | None = None,
) -> str:
    (found,) = completions(tmp_path, monkeypatch, unit, stored, key, services)
    return found.prompt + (found.output or "")


def completions(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unit: Unit,
    stored: list[bytes],
    key: Keypair = KEY,
    services: dict[int, Service] | None = None,
) -> tuple[Completion, ...]:
    async def main() -> tuple[Completion, ...]:
        store = BlobStore(tmp_path)
        for blob in stored:
            store.put(blob)
        server = BlobServer(store)
        await server.start(port=0)
        endpoint = f"http://127.0.0.1:{server.port}".encode()

        async def known(client: Any, at: bytes | None = None) -> dict[bytes, Provider]:
            return {racer.owner: Provider(bytes(32), endpoint, 0) for racer in unit.racers}

        async def sold(client: Any, number: int, at: bytes | None = None) -> Service | None:
            return ({0: SERVICE} if services is None else services).get(number)

        monkeypatch.setattr(market_reads, "providers", known)
        monkeypatch.setattr(market_reads, "service", sold)
        monkeypatch.setattr(registry, "FORMS", (cast("WorkloadForm", Quoting()),))
        try:
            async with BlobClient(private=True) as blobs:
                found = await completions_of(cast("Any", FakeClient()), blobs, key, UNIT, unit)
        finally:
            await server.close()
        return found

    return asyncio.run(main())


def settled(*racers: Racer, **changed: Any) -> Unit:
    unit = Unit(
        0, KEY.account, TERMS, 130, 5, 7, 10, 10, UnitState.SETTLED, 1, 100, None, racers, output_root=ROOT, ended_at=31
    )
    return replace(unit, **changed)


def test_a_completion_is_fetched_opened_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winner, blob = racer(b"1" * 32, OUTPUT)
    assert read(tmp_path, monkeypatch, settled(winner), [INPUT, blob]) == "<prompt>< answer>"


def test_a_batch_is_shown_in_the_order_of_its_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_input(SALT, SealKey.of(KEY).public, encode_requests([b"one", b"!", b"two"]))
    sealed = seal(content, [SealKey.of(KEY).public])
    outcomes: list[BatchOutcome] = [Completed(b" first", 3, 6), RefusedRequest(), Completed(b" second", 3, 7)]
    blob = seal(encode_outcomes(outcomes), [SealKey.of(KEY).public])
    root = output_of(GENESIS, UNIT, SALT, outcomes).root
    winner = Racer(b"1" * 32, b"1" * 32, 25, b"h" * 32, 25, Reveal(root, address_of(blob), 13, 30, 6))
    terms = replace(TERMS, input_root=address_of(sealed), input_commitment=commitment_of(content), requests=3)
    unit = settled(winner, terms=terms, output_root=root)
    shown = completions(tmp_path / "1", monkeypatch, unit, [sealed, blob])
    assert answer_rows(shown) == [
        {"index": 0, "prompt": "<one>", "output": "< first>"},
        {"index": 1, "prompt": "0x21", "output": None},
        {"index": 2, "prompt": "<two>", "output": "< second>"},
    ]
    fewer = replace(unit, terms=replace(terms, requests=2))
    with raises_code(ResultError, "no_output"):
        completions(tmp_path / "2", monkeypatch, fewer, [sealed, blob])


def test_what_no_form_here_reads_is_shown_in_hex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winner, blob = racer(b"1" * 32, OUTPUT)
    in_hex = f"0x{b'prompt'.hex()}0x{OUTPUT.hex()}"
    assert read(tmp_path / "1", monkeypatch, settled(winner), [INPUT, blob], services={}) == in_hex
    other = replace(SERVICE, terms=replace(SERVICE.terms, workload=b"x" * 32))
    assert read(tmp_path / "2", monkeypatch, settled(winner), [INPUT, blob], services={0: other}) == in_hex


def test_a_request_that_is_none_does_not_hide_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_input(SALT, SealKey.of(KEY).public, b"!")
    sealed = seal(content, [SealKey.of(KEY).public])
    winner, blob = racer(b"1" * 32, OUTPUT)
    unit = settled(winner, terms=replace(TERMS, input_root=address_of(sealed), input_commitment=commitment_of(content)))
    assert read(tmp_path, monkeypatch, unit, [sealed, blob]) == "0x21< answer>"


def test_what_does_not_hash_to_the_settled_root_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    liar, lie = racer(b"1" * 32, b" something else")
    honest, blob = racer(b"2" * 32, OUTPUT)
    assert read(tmp_path, monkeypatch, settled(liar, honest), [INPUT, lie, blob]) == "<prompt>< answer>"
    with raises_code(ResultError, "no_output"):
        read(tmp_path / "2", monkeypatch, settled(liar), [INPUT, lie])


@pytest.mark.parametrize(
    ("unit", "stored", "key", "code"),
    [
        (settled(state=UnitState.QUEUED), [INPUT], KEY, "no_result"),
        (settled(racer(b"1" * 32, OUTPUT)[0]), [], KEY, "no_input"),
        (settled(racer(b"1" * 32, OUTPUT)[0]), [INPUT], STRANGER, "not_customer"),
        (settled(racer(b"1" * 32, OUTPUT)[0]), [INPUT], KEY, "no_output"),
        (
            settled(racer(b"1" * 32, OUTPUT)[0], terms=replace(TERMS, input_root=address_of(SEALED_TO_ANOTHER))),
            [SEALED_TO_ANOTHER],
            KEY,
            "sealed_input",
        ),
        (
            settled(racer(b"1" * 32, OUTPUT)[0], terms=replace(TERMS, input_commitment=bytes(32))),
            [INPUT],
            KEY,
            "wrong_input",
        ),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: Unit, stored: list[bytes], key: Keypair, code: str
) -> None:
    with raises_code(ResultError, code):
        read(tmp_path, monkeypatch, unit, stored, key)


def test_what_an_ended_unit_cost_and_who_was_paid() -> None:
    first, second = racer(b"1" * 32, OUTPUT)[0], racer(b"2" * 32, OUTPUT)[0]
    both = settled(replace(first, committed_at=28), second, paid=135)
    assert winner_of(both) == second
    assert cost_of(both) == 135
    assert cost_of(settled(state=UnitState.REFUNDED)) == 0
    refuted = replace(both, is_refuted=True)
    assert (cost_of(refuted), progress(refuted)) == (135 - 100 * len(OUTPUT) // 64, "settled, and refuted by an audit")
    assert second.reveal is not None
    liar = replace(second, reveal=replace(second.reveal, output_root=b"w" * 32))
    silent = replace(second, reveal=None)
    assert cost_of(settled(first, liar, paid=135)) == 35, "the liar paid the price"
    assert cost_of(settled(first, silent, paid=135)) == 35, "and so did who never opened what it committed to"
    assert cost_of(settled(first, replace(silent, commitment=None), paid=135)) == 135
    assert cost_of(settled(first, second, replace(silent, owner=b"3" * 32), paid=135)) == 135
    assert winner_of(settled(first, state=UnitState.RACING)) is None
    assert (
        progress(settled(first, replace(second, reveal=None), state=UnitState.RACING))
        == "racing, 2 committed, 1 revealed"
    )
    declined = replace(first, commitment=None, reveal=None, has_declined=True)
    assert (
        progress(
            settled(declined, replace(second, commitment=None, reveal=None), state=UnitState.RACING, is_refilling=True)
        )
        == "racing, 0 committed, 0 revealed, a declined place is redrawn"
    )


def test_a_result_that_an_audit_refuted_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, blob = racer(b"1" * 32, OUTPUT)
    with raises_code(ResultError, "refuted"):
        read(tmp_path, monkeypatch, settled(one, is_refuted=True), [INPUT, blob])


def test_a_completion_is_no_markup() -> None:
    row = FollowedUnit("0x1234567890", state="settled", completion="a[0] [/] [red]b[/red]")
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(_table(FollowedUnits({b"u": row})))
    assert "a[0] [/] [red]b[/red]" in console.export_text()


def test_a_note_about_the_wait_has_a_time_beside_each_block() -> None:
    waiting = FollowedUnit("0x1234567890", state="queued", why="Refunded at block 160 if not drawn by then")
    followed = FollowedUnits({b"u": waiting, b"v": FollowedUnit("0xff", ended_in_block=7)})
    assert followed.standing() == "ended: 1 of 2 units; 0x12345678 is queued: " + (waiting.why or "")
    followed.now = ChainTime(height=100, now_ms=0, passed_ms=2_000, passed_blocks=1, epoch_blocks=60, era_epochs=1)
    assert "block 160 (in about 2 min)" in followed.standing()
    assert FollowedUnits({b"v": FollowedUnit("0xff", ended_in_block=7)}).standing() == "ended: 1 of 1 unit"


def test_a_completion_cannot_command_the_terminal() -> None:
    assert _shortened("a\x1b[2Jb\nc\x07", 60) == "a [2Jb c "
    assert len(_shortened("x" * 500, 60) or "") == 60


def test_as_many_ids_are_told_whole_as_a_person_looks_through() -> None:
    rows = [FollowedUnit(f"0x{number:064x}") for number in range(WHOLE_IDS_SHOWN)]
    told = whole_ids(rows).splitlines()
    assert told[1:] == [row.unit for row in rows]
    assert whole_ids([*rows, *rows]).splitlines() == [*told, f"and {WHOLE_IDS_SHOWN} more: `ogpu --json` tells all"]


# Who was paid what for a unit: what is shown is what moved, to the grain, in the block in which the unit ended.


FEW = 5
"""Validators: two race and three judge, so that nobody is left for a court."""


def new_chain(validators: int = 9) -> WatchedChain:
    """With an audit pot and an emission that have something."""
    chain = WatchedChain(named_keys(validators))
    chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, OGPU))
    chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, PROVIDER_REWARDS, OGPU))
    return chain


def to_the_end(chain: WatchedChain, unit_id: bytes) -> Unit:
    while is_open(chain.unit(unit_id)):
        chain.block()
    return chain.unit(unit_id)


def payments(chain: WatchedChain, unit_id: bytes, oldest: int = 0) -> tuple[list[UnitPayment], bool]:
    return asyncio.run(payments_of(cast("Any", KeptNode(chain, oldest)), unit_id, chain.unit(unit_id)))


def agreed(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: RIGHT, 1: RIGHT})
    return unit_id


def lied(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [Answered(RIGHT)] * 3)
    return unit_id


def silent_judge(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [Answered(RIGHT), None, Answered(RIGHT)])
    return unit_id


def alone(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: RIGHT})
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    return unit_id


def appealed(chain: WatchedChain) -> bytes:
    unit_id, _, (_, honest) = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [Answered(WRONG), Answered(WRONG), Answered(RIGHT)])
    chain.block(signed(honest.stash, Courts.appeal(case_id=unit_id)))
    judged(chain, unit_id, [Answered(RIGHT)] * 4)
    return unit_id


def unusable(chain: WatchedChain) -> bytes:
    unit_id, _ = declined_twice(chain)
    judged(chain, unit_id, [Unanswerable()] * 3)
    return unit_id


def unheard(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [None] * 3)
    return unit_id


def cancelled(chain: WatchedChain) -> bytes:
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=8))
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)))
    return unit_id


ENDINGS = {
    "agreed": (agreed, {"winner", "witness", "fee", "audit premium", "burned", "winner, fee rebate"}),
    "lied": (lied, {"winner", "judge", "customer, price returned", "burned"}),
    "a silent judge": (silent_judge, {"winner", "judge", "burned"}),
    "alone": (alone, {"winner", "judge", "audit premium"}),
    "appealed": (appealed, {"winner", "judge", "appellant", "customer, price returned"}),
    "unusable": (unusable, {"judge"}),
    "unheard": (unheard, {"burned"}),
    "cancelled": (cancelled, {"burned"}),
}


WITHOUT_A_COURT = sorted(ENDINGS.keys() - {"appealed"})
"""Endings without an appeal. With too few validators for a court, a decision ends in the same block."""


@pytest.mark.parametrize(
    ("name", "validators"), [*((name, 9) for name in ENDINGS), *((name, FEW) for name in WITHOUT_A_COURT)]
)
def test_what_is_shown_is_what_moved(name: str, validators: int) -> None:
    ending, roles = ENDINGS[name]
    chain = new_chain(validators)
    chain.blocks(5)  # so that no era turns, and pays out, in the block of an end
    unit_id = ending(chain)
    unit = to_the_end(chain, unit_id)
    found, is_all = payments(chain, unit_id)
    assert is_all
    assert roles <= {payment.role for payment in found}
    of_customer = sum(payment.grains for payment in found if payment.source == OF_CUSTOMER)
    assert {payment.payer == CUSTOMER.stash for payment in found if payment.source == OF_CUSTOMER} == {True}
    assert unit.paid == of_customer
    assert (unit.refund is not None) == (unit.state is UnitState.REFUNDED)
    for account in (*(keys.stash for keys in chain.validators), CUSTOMER.stash, TREASURY, AUDIT_POT, PROVIDER_REWARDS):
        got = sum(payment.grains for payment in found if payment.account == account)
        gave = sum(payment.grains for payment in found if payment.payer == account)
        assert chain.owned_at(account, unit.ended_at) - chain.owned_at(account, unit.ended_at - 1) == got - gave


FORGOTTEN = {
    "agreed": set[str](),
    "alone": {"judges"},
    "unusable": {"judges, or burned"},
    "unheard": {"judges, or burned"},
    "cancelled": {"burned"},
}
"""By ending: the roles shown without an account, because the record does not name one."""


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_a_node_has_forgotten_is_not_made_up(name: str) -> None:
    """The record names the racers and the cost, but not the judges."""
    chain = new_chain()
    unit_id = ENDINGS[name][0](chain)
    unit = to_the_end(chain, unit_id)
    found, is_all = payments(chain, unit_id, oldest=unit.ended_at + 1)
    assert is_all == (name == "cancelled")
    assert sum(payment.grains for payment in found) == unit.paid
    named = {"burned"} if unit.state is UnitState.SETTLED else set[str]()  # a half of the fee
    assert {payment.role for payment in found if payment.account is None} == FORGOTTEN[name] | named


def test_another_block_than_that_of_the_end_says_nothing_of_it() -> None:
    chain = new_chain()
    unit_id = alone(chain)
    unit = to_the_end(chain, unit_id)
    chain.told[unit.ended_at] = chain.told[unit.ended_at - 1]
    assert payments(chain, unit_id)[1] is False


@pytest.mark.parametrize("oldest", [0, 1_000])
def test_of_a_batch_that_is_checked_by_its_leaves_the_auditor_is_named(oldest: int) -> None:
    stage = LeafChain(kind=WatchedChain)
    unit_id = stage.settled()
    assert isinstance(stage.chain, WatchedChain)
    shown, is_all = payments(stage.chain, unit_id, oldest)
    unit = stage.unit(unit_id)
    assert sum(payment.grains for payment in shown if payment.source == OF_CUSTOMER) == unit.paid
    fee = check_fee(unit.rules, unit.price, unit.terms.requests)
    assert [payment.grains for payment in shown if "auditor of its leaves" in payment.role] == [fee]
    assert is_all == (oldest == 0)


# Why a unit was refunded: its record says so until it is dropped.


REFUNDED = Unit(
    0, b"c" * 32, UnitTerms(5, 2, b"i" * 32, b"h" * 32, 1, 8), 0, 0, 0, 9, 9, UnitState.REFUNDED, ended_at=30
)


@pytest.mark.parametrize("refund", Refund)
def test_the_record_says_why(refund: Refund) -> None:
    assert why_refunded(replace(REFUNDED, refund=refund)) == f"refunded in block 30: {REASONS[refund]}"
