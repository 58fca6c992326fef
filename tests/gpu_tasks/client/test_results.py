"""Completions out of a real blob store; the chain is a fake that answers one question."""

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from gpu_tasks.client.results import ResultError, completion_of, cost_of, progress, winner_of
from gpu_tasks.client.watching import FIELDS, _shortened, _table, harmless
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input, output_root
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest, encode_request
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

KEY = Keypair.from_seed(Scheme.SR25519, b"c" * 32)
STRANGER = Keypair.from_seed(Scheme.SR25519, b"e" * 32)
GENESIS, UNIT, SALT = b"g" * 32, b"u" * 32, b"s" * 32
CONTENT = encode_input(SALT, SealKey.of(KEY).public, encode_request(CompletionRequest(b"prompt", 8, 0, bytes(32))))
INPUT = seal(CONTENT, [SealKey.of(KEY).public])
OUTPUT = b" answer"
ROOT = output_root(GENESIS, UNIT, SALT, OUTPUT)
TERMS = UnitTerms(100, 2, address_of(INPUT), commitment_of(CONTENT), 0, 64)


class FakeClient:
    genesis_hash = GENESIS


def racer(owner: bytes, output: bytes, root: bytes = ROOT) -> tuple[Racer, bytes]:
    blob = seal(output, [SealKey.of(KEY).public])
    reveal = Reveal(root, address_of(blob), len(output), 30)
    return Racer(owner, owner, 25, b"h" * 32, 25, reveal), blob


def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: Unit, stored: list[bytes], key: Keypair = KEY) -> bytes:
    async def main() -> bytes:
        store = BlobStore(tmp_path)
        for blob in stored:
            store.put(blob)
        server = BlobServer(store)
        await server.start(port=0)
        endpoint = f"http://127.0.0.1:{server.port}".encode()

        async def known(client: Any, at: bytes | None = None) -> dict[bytes, Provider]:
            return {one.owner: Provider(bytes(32), endpoint, 0) for one in unit.racers}

        monkeypatch.setattr(market_reads, "providers", known)
        try:
            async with BlobClient() as blobs:
                found = await completion_of(cast("Any", FakeClient()), blobs, key, UNIT, unit)
        finally:
            await server.close()
        return found.prompt + found.output

    return asyncio.run(main())


def settled(*racers: Racer, **changed: Any) -> Unit:
    unit = Unit(
        0, KEY.account, TERMS, 130, 5, 7, 10, 10, UnitState.SETTLED, 1, 100, None, racers, output_root=ROOT, ended_at=31
    )
    return replace(unit, **changed)


def test_a_completion_is_fetched_opened_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, blob = racer(b"1" * 32, OUTPUT)
    assert read(tmp_path, monkeypatch, settled(one), [INPUT, blob]) == b"prompt answer"


def test_what_does_not_hash_to_the_settled_root_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    liar, lie = racer(b"1" * 32, b" something else")
    honest, blob = racer(b"2" * 32, OUTPUT)
    assert read(tmp_path, monkeypatch, settled(liar, honest), [INPUT, lie, blob]) == b"prompt answer"
    with pytest.raises(ResultError, match="no provider serves the output"):
        read(tmp_path / "2", monkeypatch, settled(liar), [INPUT, lie])


@pytest.mark.parametrize(
    ("unit", "stored", "key", "why"),
    [
        (settled(state=UnitState.QUEUED), [INPUT], KEY, "the unit is queued: it has no result"),
        (settled(racer(b"1" * 32, OUTPUT)[0]), [], KEY, "the input is gone"),
        (settled(racer(b"1" * 32, OUTPUT)[0]), [INPUT], STRANGER, "is --key the customer's"),
        (settled(racer(b"1" * 32, OUTPUT)[0]), [INPUT], KEY, "no provider serves"),
        (
            settled(racer(b"1" * 32, OUTPUT)[0], terms=replace(TERMS, input_commitment=bytes(32))),
            [INPUT],
            KEY,
            "another than the one that was posted",
        ),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: Unit, stored: list[bytes], key: Keypair, why: str
) -> None:
    with pytest.raises(ResultError, match=why):
        read(tmp_path, monkeypatch, unit, stored, key)


def test_what_an_ended_unit_cost_and_who_was_paid() -> None:
    first, second = racer(b"1" * 32, OUTPUT)[0], racer(b"2" * 32, OUTPUT)[0]
    both = settled(replace(first, committed_at=28), second)
    assert winner_of(both) == second
    assert cost_of(both) == 130
    assert cost_of(settled(first)) == 100
    assert cost_of(settled(state=UnitState.REFUNDED)) == 0
    assert winner_of(settled(first, state=UnitState.RACING)) is None
    assert (
        progress(settled(first, replace(second, reveal=None), state=UnitState.RACING))
        == "racing, 2 committed, 1 revealed"
    )


def test_a_completion_is_no_markup() -> None:
    row = {**dict.fromkeys(FIELDS), "unit": "0x1234567890", "state": "settled", "completion": "a[0] [/] [red]b[/red]"}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(_table({b"u": row}))
    assert "a[0] [/] [red]b[/red]" in console.export_text()


def test_a_completion_cannot_command_the_terminal() -> None:
    assert _shortened("a\x1b[2Jb\nc\x07") == "a [2Jb c "
    assert len(_shortened("x" * 500) or "") == 60
    assert harmless("a\x1b[2Jb\nc\x9b\u202e") == "a [2Jb\nc  "
