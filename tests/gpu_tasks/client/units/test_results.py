"""Outcomes of a unit: its answer from real stores, its progress, and the reason of a refund."""

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
    REASONS,
    Completion,
    ResultError,
    answer_rows,
    claimant_of,
    completions_of,
    has_answer,
    is_at_work,
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
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.market.inference.units import Racer, Refund, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import DecodeError
from wallet.keypair import Keypair

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


def test_what_does_not_hash_to_the_claimed_root_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        (settled(racer(b"1" * 32, OUTPUT)[0]), [INPUT], STRANGER, "sealed_input"),
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


def test_who_has_the_answer_of_a_unit() -> None:
    first, second = racer(b"1" * 32, OUTPUT)[0], racer(b"2" * 32, OUTPUT)[0]
    both = settled(replace(first, committed_at=28), second, paid=135)
    claimed, refuted = (replace(both, state=state) for state in (UnitState.CLAIMED, UnitState.REFUNDED))
    assert winner_of(both) == winner_of(claimed) == second
    assert (winner_of(refuted), claimant_of(refuted)) == (None, second)
    assert winner_of(settled(first, state=UnitState.RACING)) is None
    assert claimant_of(settled(first, output_root=None)) is None


@pytest.mark.parametrize("state", UnitState)
def test_a_unit_is_at_work_has_an_answer_or_ended_without_one(state: UnitState) -> None:
    unit = settled(state=state)
    assert is_at_work(unit) == (state in (UnitState.QUEUED, UnitState.RACING, UnitState.DISPUTED))
    assert has_answer(unit) == (state in (UnitState.CLAIMED, UnitState.SETTLED))


def test_the_progress_of_a_race_is_said() -> None:
    first, second = racer(b"1" * 32, OUTPUT)[0], racer(b"2" * 32, OUTPUT)[0]
    assert progress(settled(first, second, state=UnitState.CLAIMED)) == "claimed"
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


def test_a_claimed_answer_is_shown_at_once_and_a_refuted_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, blob = racer(b"1" * 32, OUTPUT)
    claimed = settled(one, state=UnitState.CLAIMED, ended_at=0)
    assert read(tmp_path / "1", monkeypatch, claimed, [INPUT, blob]) == "<prompt>< answer>"
    refuted = settled(one, state=UnitState.REFUNDED, refund=Refund.REFUTED)
    with raises_code(ResultError, "refuted"):
        read(tmp_path / "2", monkeypatch, refuted, [INPUT, blob])


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


# Why a unit was refunded: its record says so until it is dropped.


REFUNDED = Unit(
    0, b"c" * 32, UnitTerms(5, 2, b"i" * 32, b"h" * 32, 1, 8), 0, 0, 0, 9, 9, UnitState.REFUNDED, ended_at=30
)


@pytest.mark.parametrize("refund", Refund)
def test_the_record_says_why(refund: Refund) -> None:
    assert why_refunded(replace(REFUNDED, refund=refund)) == f"refunded in block 30: {REASONS[refund]}"
