"""A provider delivers its claim to its checkers and voters, and to no other."""

from dataclasses import replace

import pytest

from claim_book import ClaimedBatch, claimed_batch
from gpu_tasks.batches.outcomes import Completed, RefusedRequest
from gpu_tasks.data.blob_client import DELIVERY_PATH, BlobError
from gpu_tasks.data.claim_delivery import ClaimedUnit, delivery_max, gathered_delivery, read_delivery
from gpu_tasks.data.sealing import SealError
from gpu_tasks.provider.blobs import deliveries
from gpu_tasks.provider.blobs.deliveries import Deliverer, NoReaderError
from gpu_tasks.provider.chain.port import Identity
from provider_chain import INPUT_SALT, Miner, Village, in_village
from runtime.cryptography.signatures import Scheme
from simulation.chains.market_chain import GENESIS_HASH
from wallet.keypair import Keypair

ASKED = [b"complete this", b"no request", b"complete that one too"]
DISPUTE = b"d" * 32


async def ask(batch: ClaimedBatch, question: bytes) -> bytes:
    endpoint = f"http://127.0.0.1:{batch.provider.daemon.server.port}"
    return await batch.village.blobs.ask(endpoint, DELIVERY_PATH, question)


async def delivered_to(batch: ClaimedBatch, reader: Miner, dispute: bytes | None = None) -> bytes:
    identity = reader.daemon.parts.identity

    async def part(number: int) -> bytes:
        return identity.seal_key.open(
            await ask(batch, deliveries.part_question(identity, batch.id, dispute, 0, number))
        )

    return await gathered_delivery(part, delivery_max(len(ASKED)))


@in_village(5)
async def test_checkers_and_voters_get_the_whole_claim_sealed_to_them(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker, later, voter, _ = batch.others()
    batch.call_checker(checker, 0)
    batch.change(checks=(*batch.claim.checks, replace(batch.claim.checks[0], checker=later.keys.stash)))
    batch.dispute(DISPUTE, [voter])
    terms = village.unit(batch.id).unit.terms
    unit = ClaimedUnit(GENESIS_HASH, batch.id, terms.input_commitment, len(ASKED), batch.claim.terms.root)
    for reader, dispute in ((checker, None), (later, None), (voter, DISPUTE)):
        delivered = read_delivery(await delivered_to(batch, reader, dispute), unit)
        first, second, third = delivered.outcomes
        assert (delivered.salt, delivered.requests) == (INPUT_SALT, tuple(ASKED))
        assert (first, second) == (Completed(ASKED[0][::-1], 0, len(ASKED[0])), RefusedRequest())
        assert isinstance(third, Completed)
        assert delivered.leaves == batch.leaves
    blob = await ask(batch, deliveries.part_question(checker.daemon.parts.identity, batch.id, None, 0, 0))
    with pytest.raises(SealError):
        later.daemon.parts.identity.seal_key.open(blob)


@in_village(5)
async def test_everybody_else_gets_nothing(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker, voter, stranger, _ = batch.others()
    batch.call_checker(checker, 0)
    batch.dispute(DISPUTE, [voter])
    batch.dispute(b"o" * 32, [voter], work=b"?" * 32)
    own, other, third = (miner.daemon.parts.identity for miner in (checker, voter, stranger))
    good = deliveries.part_question(own, batch.id, None, 0, 0)
    foreign = Identity(own.stash, own.key, own.seal_key, b"g" * 32)
    for question in (
        b"",
        bytes(len(good)),
        good + b"\0",
        good[:-1] + bytes((good[-1] ^ 1,)),
        deliveries.part_question(foreign, batch.id, None, 0, 0),
        deliveries.part_question(other, batch.id, None, 0, 0),
        deliveries.part_question(third, batch.id, DISPUTE, 0, 0),
        deliveries.part_question(third, batch.id, None, 0, 0),
        deliveries.part_question(replace(third, stash=own.stash), batch.id, None, 0, 0),
        deliveries.part_question(other, batch.id, b"o" * 32, 0, 0),
        deliveries.part_question(other, batch.id, b"?" * 32, 0, 0),
        deliveries.part_question(own, b"?" * 32, None, 0, 0),
        deliveries.part_question(own, batch.id, None, 0, 1),
        deliveries.part_question(own, batch.id, None, 0, 255),
        deliveries.part_question(own, batch.id, None, 1, 0),
    ):
        with pytest.raises(BlobError, match="answered 403"):
            await ask(batch, question)
    assert await ask(batch, good)


@in_village(5)
async def test_nothing_is_delivered_without_a_result_a_node_or_a_claim(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    checker = batch.others()[0]
    batch.call_checker(checker, 0)
    assert await delivered_to(batch, checker)
    batch.provider.chain.is_away = True
    with pytest.raises(BlobError):
        await delivered_to(batch, checker)
    batch.provider.chain.is_away = False
    held = batch.book.claims.pop(batch.id)
    with pytest.raises(BlobError):
        await delivered_to(batch, checker)
    batch.book.claims[batch.id] = held
    batch.provider, provider = checker, batch.provider
    with pytest.raises(BlobError):
        await delivered_to(batch, checker)
    batch.provider = provider
    assert await delivered_to(batch, checker)


@in_village(5)
async def test_a_key_of_no_provider_costs_one_read_of_the_chain(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can sign with a key of its own."""
    batch = await claimed_batch(village, ASKED)
    identity = batch.others()[0].daemon.parts.identity
    own = replace(identity, key=Keypair.from_seed(Scheme.ED25519, b"s" * 32))
    port, read = deliverer_of(batch)._claim_port, list[str]()
    for name in ("claim", "item_dispute", "provider", "unit"):
        monkeypatch.setattr(port, name, lambda *_, name=name, **__: read.append(name))
    with pytest.raises(NoReaderError):
        await deliverer_of(batch).answer(deliveries.part_question(own, batch.id, DISPUTE, 0, 0))
    assert not read


def deliverer_of(batch: ClaimedBatch) -> Deliverer:
    deliverer = batch.provider.daemon.server._deliverer
    assert isinstance(deliverer, Deliverer)
    return deliverer
