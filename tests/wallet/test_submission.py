"""Signed calls leave only after consent (B2), and a call is sent once, for any failure on the way (B5)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from between import SUBMIT, Between, Spoil, lose_after_submit, lose_before_submit
from error_codes import ended_code, raises_code
from runtime.blocks.extrinsic import Additional, decode_extrinsic, payload_head, signing_payload
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from wallet import client as client_module
from wallet import outbox, submission
from wallet.client import ERA_BLOCKS, NO_SIGNATURE, ChainClient, NotIncludedError, Outcome, Prepared
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.outbox import FILE, OutboxFile, RecordError, SentNotes
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.submission import UnsettledError, send_once
from wallet.suri import keypair_from_suri
from wallet_runner import chain, wallet

ALICE, BOB = keypair_from_suri("//Alice"), keypair_from_suri("//Bob")
PAY = Balances.transfer_keep_alive(dest=BOB.account, value=10**8)
PAY_LESS = Balances.transfer_keep_alive(dest=BOB.account, value=10**7)


async def fall_silent(direction: str, message: dict[str, Any], wallet_side: ServerConnection, _: Any) -> bool:
    """Take the extrinsic without an answer."""
    if direction != "ask" or message.get("method") != SUBMIT:
        return False
    await wallet_side.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": "a subscription"}))
    return True


async def call_it_invalid(direction: str, message: dict[str, Any], wallet_side: ServerConnection, node: Any) -> bool:
    """Submit the extrinsic, and claim that it was refused."""
    if direction != "ask" or message.get("method") != SUBMIT:
        return False
    await node.send(json.dumps({**message, "id": 10**6}))
    error = {"code": 1010, "message": "Invalid Transaction"}
    await wallet_side.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))
    return True


async def sent(url: str, folder: Path, call: Any = PAY, key: Keypair = ALICE) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    async with await ChainClient.connect(url) as client:
        return await send_once(client, call, key, SentNotes(folder / "sent", client.genesis_hash), said.append), said


def noted_in(folder: Path) -> int:
    """Count the notes of extrinsics whose fate is not certain."""
    (path,) = (folder / "sent").rglob(FILE)
    with OutboxFile(path.parent) as opened:
        return len(opened.rows("SELECT hash FROM sent"))


async def nonce_of(url: str) -> int:
    async with await ChainClient.connect(url) as client:
        account = await client.read(System.account, ALICE.account, at=await client.finalized())
        nonce: int = account.nonce
        return nonce


@pytest.mark.parametrize("key", [ALICE, keypair_from_suri("//Alice", Scheme.ED25519)], ids=["sr25519", "ed25519"])
def test_b2_asking_for_a_fee_shows_no_signature(tmp_path: Path, key: Keypair) -> None:
    async def ask(node: str) -> None:
        between = Between(node)
        async with between.served() as url, await ChainClient.connect(url) as client:
            fee = await client.fee(PAY, key)
            (shown,) = [message["params"][0] for message in between.asked if message["method"] == "payment_queryInfo"]
            extrinsic = decode_extrinsic(client.runtime, bytes.fromhex(shown[2:]))
            who = extrinsic.authorization
            assert who is not None
            assert who.signature.signature == NO_SIGNATURE
            version = client.runtime.version
            birth = bytes.fromhex((await client.rpc.call("chain_getBlockHash", 0))[2:])
            additional = Additional(version.spec_version, version.transaction_version, client.genesis_hash, birth)
            payload = signing_payload(payload_head(client.runtime, PAY, who.extra), additional)
            assert not signatures.verify(key.scheme, key.account, payload, NO_SIGNATURE)
            signed = await client.sign(PAY, key)
            assert len(signed) == len(bytes.fromhex(shown[2:])), "else the fee would be another"
            assert fee > 0

    with chain(tmp_path) as node:
        asyncio.run(ask(node))


def test_b2_the_signature_is_none_under_any_key_for_any_message() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    assert int.from_bytes(NO_SIGNATURE[32:], "little") >= order, "ed25519 takes reduced scalars only"
    assert not NO_SIGNATURE[63] & 0x80, "sr25519 takes marked signatures only"


def test_b2_a_dry_run_hands_over_nothing_that_can_be_sent(tmp_path: Path) -> None:
    """Through every command with `--dry-run`: each extrinsic that the node sees carries no signature."""
    commands = (
        ("send", "//Bob", "777"),
        ("delegate", "//Alice", "50"),
        ("stake", "20"),
        ("call", "System.remark", "hello"),
    )
    seen: list[str] = []

    async def spy(node: str, tell: Callable[[str], None]) -> None:
        between = Between(node)
        async with between.served() as url:
            for words in commands:
                await asyncio.to_thread(wallet, tmp_path, url, *words, "--key", "//Alice", "--dry-run")
            for message in between.asked:
                assert not message["method"].startswith("author_")
                assert message["method"] not in {"state_getStorage", "state_call", "payment_queryInfo"}, "it is proved"
                if message["method"] == "ogpu_callProof" and message["params"][0] == "TransactionPaymentApi_query_info":
                    tell(message["params"][1])

    with chain(tmp_path) as node:
        asyncio.run(spy(node, seen.append))
        assert len(seen) == len(commands)
        assert all(NO_SIGNATURE.hex() in extrinsic for extrinsic in seen)
        assert asyncio.run(nonce_of(node)) == 0


@pytest.mark.parametrize("spoil", [lose_after_submit, lose_before_submit, fall_silent])
def test_b5_a_retry_after_a_lost_answer_pays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Spoil
) -> None:
    monkeypatch.setattr(client_module, "FIRST_STATUS_SECONDS", 0.5)

    async def lose_and_retry(node: str) -> None:
        between = Between(node)
        between.spoil = spoil
        async with between.served() as url:
            with pytest.raises(UnsettledError) as lost:
                await sent(url, tmp_path)
            between.spoil = None
            outcome, said = await sent(url, tmp_path)
            assert outcome.is_success
            assert f"0x{outcome.extrinsic_hash.hex()}" in str(lost.value)
            assert f"0x{outcome.extrinsic_hash.hex()}" in said[0]
            assert len(between.submitted()) == 1, "the same bytes, or none"
            assert await nonce_of(url) == 1
            assert noted_in(tmp_path) == 0
            again, said = await sent(url, tmp_path)
            assert (again.is_success, said, await nonce_of(url)) == (True, [], 2), "a payment of its own"

    with chain(tmp_path) as node:
        asyncio.run(lose_and_retry(node))


def test_b5_a_node_that_says_invalid_and_sends_it_gains_nothing(tmp_path: Path) -> None:
    async def lied_to(node: str) -> None:
        between = Between(node)
        between.spoil = call_it_invalid
        async with between.served() as url:
            with pytest.raises(RpcError):
                await sent(url, tmp_path)
            await asyncio.sleep(0.3)
            outcome, said = await sent(node, tmp_path)
            assert outcome.is_success
            assert "is not sent again" in said[0]
            assert await nonce_of(node) == 1

    with chain(tmp_path) as node:
        asyncio.run(lied_to(node))


def test_b5_a_node_that_misstates_heights_once_makes_nobody_pay_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eras repeat: signed for a height that is 64 too high, the extrinsic is valid now, and its note looks too late."""

    async def two_nodes(node: str) -> None:
        async with await ChainClient.connect(node) as lied_to, await ChainClient.connect(node) as client:
            height, block_id = client.height, client.block_id

            async def raised(block: bytes) -> int:
                return await height(block) + ERA_BLOCKS

            async def lowered(number: int | None = None) -> bytes:
                return await block_id(None if number is None else number - ERA_BLOCKS)

            monkeypatch.setattr(lied_to, "height", raised)
            monkeypatch.setattr(lied_to, "block_id", lowered)
            notes = SentNotes(tmp_path / "sent", client.genesis_hash)
            earlier = await lied_to.prepare(PAY, ALICE)
            with notes.noted(earlier):
                assert (await lied_to.send(earlier.extrinsic)).is_success
            for _ in range(2):
                with raises_code(UnsettledError, "other_heights"):
                    await send_once(client, PAY, ALICE, notes, print)
            assert await nonce_of(node) == 1
            assert (await send_once(client, PAY_LESS, ALICE, notes, print)).is_success
            assert notes.unsettled(ALICE.account) == [earlier], "what is not known of it stays unknown"

    with chain(tmp_path) as node:
        asyncio.run(two_nodes(node))


def test_b5_what_can_no_longer_be_read_is_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def discarded(node: str) -> None:
        async with await ChainClient.connect(node) as client:
            notes = SentNotes(tmp_path / "sent", client.genesis_hash)
            earlier = await client.prepare(PAY, ALICE)
            with notes.noted(earlier):
                await client.send(earlier.extrinsic)

            async def gone(*_: Any) -> Outcome:
                raise RpcError(4003, "State already discarded")

            monkeypatch.setattr(client, "outcome", gone)
            for _ in range(2):
                with raises_code(UnsettledError, "outcome_dropped"):
                    await send_once(client, PAY, ALICE, notes, print)
        assert await nonce_of(node) == 1

    with chain(tmp_path) as node:
        asyncio.run(discarded(node))


def test_b5_another_call_is_not_taken_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_STATUS_SECONDS", 0.5)

    async def two(node: str) -> None:
        between = Between(node)
        between.spoil = fall_silent
        async with between.served() as url:
            with pytest.raises(UnsettledError):
                await sent(url, tmp_path)
        outcome, said = await sent(node, tmp_path, PAY_LESS)
        assert (outcome.is_success, said, await nonce_of(node)) == (True, [], 1)
        outcome, said = await sent(node, tmp_path)
        assert (outcome.is_success, said) == (True, []), (
            "its nonce is used: it can never be in a block, so it is signed anew"
        )
        assert await nonce_of(node) == 2
        assert noted_in(tmp_path) == 0

    with chain(tmp_path) as node:
        asyncio.run(two(node))


def test_b5_another_call_leaves_the_note_of_one_that_may_still_be_sent(tmp_path: Path) -> None:
    async def two(node: str) -> None:
        between = Between(node)
        between.spoil = lose_before_submit
        async with between.served() as url:
            for number, call in enumerate((PAY, PAY_LESS), 1):
                with pytest.raises(UnsettledError):
                    await sent(url, tmp_path, call)
                assert noted_in(tmp_path) == number

    with chain(tmp_path) as node:
        asyncio.run(two(node))


def test_b5_earlier_tries_are_finished_in_the_order_of_their_nonces(tmp_path: Path) -> None:
    """Otherwise the later one would wait for the earlier one for ever."""
    notes = SentNotes(tmp_path / "sent", bytes(32))
    for nonce in (3, 1, 4, 0, 5, 2):
        with notes.noted(Prepared(bytes([nonce]) * 40, b"call", ALICE.account, nonce, 0, 64, bytes(32))):
            pass
    assert [earlier.nonce for earlier in notes.unsettled(ALICE.account)] == list(range(6))


def test_b5_what_the_node_has_already_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "POLL_SECONDS", 0.05)

    async def waited(node: str) -> None:
        async with await ChainClient.connect(node) as client:

            async def already(extrinsic: bytes) -> Outcome:
                await client.rpc.call("author_submitExtrinsic", "0x" + extrinsic.hex())
                raise RpcError(submission.ALREADY_IMPORTED, "Transaction Already Imported")

            monkeypatch.setattr(client, "send", already)
            notes = SentNotes(tmp_path / "sent", client.genesis_hash)
            assert (await send_once(client, PAY, ALICE, notes, print)).is_success

    with chain(tmp_path) as node:
        asyncio.run(waited(node))


def test_b5_a_dead_extrinsic_is_signed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def outlived(node: str) -> None:
        async with await ChainClient.connect(node) as client:
            notes = SentNotes(tmp_path / "sent", client.genesis_hash)
            dead = await client.prepare(PAY, ALICE)
            with notes.noted(dead):
                pass
            for _ in range(2):
                await client.submit(PAY_LESS, BOB)  # two blocks
            monkeypatch.setattr(SentNotes, "unsettled", lambda *_: [replace(dead, dies=2)])
            assert (await send_once(client, PAY, ALICE, notes, print)).extrinsic_hash != dead.hash
            assert noted_in(tmp_path) == 0

    with chain(tmp_path) as node:
        asyncio.run(outlived(node))


def test_a_program_that_looks_through_the_notes_takes_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of one account share the folder: one signs while another looks for its own earlier submissions."""
    notes = SentNotes(tmp_path / "sent", bytes(32))
    waiting = Prepared(bytes(40), b"call", ALICE.account, 0, 0, 64, bytes(32))
    with notes.noted(waiting):
        pass
    taken: list[bool] = []

    def take() -> None:
        with notes.noted(waiting):
            taken.append(True)

    taking = threading.Thread(target=take)

    def read_slowly(*_: Any) -> Iterator[Prepared]:
        taking.start()
        taking.join()
        yield waiting

    monkeypatch.setattr(outbox, "_prepared", read_slowly)
    assert notes.unsettled(ALICE.account) == [waiting]
    assert taken == [True]


def test_what_another_program_is_sending_is_left_to_it(tmp_path: Path) -> None:
    async def prepared(node: str) -> Any:
        async with await ChainClient.connect(node) as client:
            return await client.prepare(PAY, ALICE)

    with chain(tmp_path) as node:
        waiting = asyncio.run(prepared(node))
    notes = SentNotes(tmp_path / "sent", bytes(32))
    with notes.noted(waiting):
        assert notes.unsettled(ALICE.account) == []
        with raises_code(WalletError, "sent_elsewhere"), notes.noted(waiting):
            pass
    assert notes.unsettled(ALICE.account) == [waiting]
    assert notes.unsettled(BOB.account) == []
    assert SentNotes(tmp_path / "sent", b"\1" * 32).unsettled(ALICE.account) == [], "another chain"
    assert notes.path.stat().st_mode & 0o777 == 0o600
    notes.path.write_text("{}" * 1_000)
    with raises_code(RecordError, "record_damaged"):
        notes.unsettled(ALICE.account)


def test_b12_a_silent_node_ends_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_STATUS_SECONDS", 0.3)
    results = []

    async def silent(node: str) -> None:
        between = Between(node)
        between.spoil = fall_silent
        async with between.served() as url:
            words = ("send", "//Bob", "1", "--key", "//Alice", "--yes")
            results.append(await asyncio.to_thread(wallet, tmp_path, url, *words))

    with chain(tmp_path) as node:
        asyncio.run(silent(node))
    (result,) = results
    assert (result.exit_code, ended_code(result)) == (2, "unsettled")


def test_statuses_that_end_it_are_errors() -> None:
    assert issubclass(NotIncludedError, WalletError)
    assert not issubclass(NodeUnreachableError, WalletError)
