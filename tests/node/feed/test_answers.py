"""The node's answers to the RPC process, within its limits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from block_maker import Maker
from consensus.certificates import CERTIFICATE
from node.errors import BadInputError
from node.feed import messages as feed
from node.feed.answers import OFFENCES_KEPT, PROOF_KEYS_MAX, Answers
from node.pool.refusal import PoolRefusalError
from runtime.blocks.block import HEADER
from runtime.blocks.evidence import EVIDENCE, DoubleHeader
from runtime.encoding.codec import codec
from runtime.pallets.session_keys import KeysProof, SessionKeys


def answers() -> Answers:
    view = SimpleNamespace(chain=SimpleNamespace(prove=lambda block, keys: [block, b"%d" % len(keys)]))
    return Answers(view, list)  # type: ignore[arg-type]  # only proofs are asked for


@pytest.mark.trio
async def test_proofs_are_of_so_many_keys_at_most() -> None:
    most = [b"k"] * PROOF_KEYS_MAX
    assert await answers().answer(feed.Prove(1, b"b", most)) == [b"b", b"%d" % PROOF_KEYS_MAX]
    with pytest.raises(PoolRefusalError) as refused:
        await answers().answer(feed.Prove(1, b"b", [*most, b"k"]))
    assert refused.value.code == -32602


@pytest.mark.trio
async def test_a_certificate_comes_with_its_header_and_without_the_blocks_body(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    first = maker.make()
    second = maker.make(first.facts.id)
    maker.chain.finalise((first.facts.id, second.facts.id), maker.certify(second))
    view = SimpleNamespace(chain=maker.chain)
    asked = Answers(view, list)  # type: ignore[arg-type]  # only the chain is asked for
    expected = [second.facts.id, CERTIFICATE.encode(maker.certify(second)), HEADER.encode(second.header)]
    for height in (0, 1, 2):
        assert await asked.answer(feed.CertificateAt(1, height)) == expected
    assert await asked.answer(feed.CertificateAt(1, 3)) is None


@pytest.mark.trio
async def test_new_keys_are_made_for_an_account_by_a_node_that_has_keys() -> None:
    keys, proof = SessionKeys(b"s" * 32, b"v" * 32), KeysProof(b"1" * 64, b"2" * 80)
    asked: list[bytes] = []

    def rotate(owner: bytes) -> tuple[SessionKeys, KeysProof]:
        asked.append(owner)
        if len(asked) > 1:
            raise BadInputError("the keystore is full")
        return keys, proof

    validator = Answers(answers()._node_view, list, rotate)
    encoded = [codec(SessionKeys).encode(keys), codec(KeysProof).encode(proof)]
    assert await validator.answer(feed.RotateKeys(1, b"o" * 32)) == encoded
    for answering, owner, why in (
        (validator, b"o" * 32, "full"), (validator, b"short", "32 bytes"), (answers(), b"o" * 32, "--validator")
    ):  # fmt: skip
        with pytest.raises(PoolRefusalError) as refused:
            await answering.answer(feed.RotateKeys(1, owner))
        assert why in refused.value.data
    assert asked == [b"o" * 32] * 2


@pytest.mark.trio
async def test_what_was_seen_of_offences_is_shown_as_it_is_reported() -> None:
    asked = answers()
    asked.on_offence(b"k" * 32, 9, b"first", b"second")
    asked.on_evidence(b"v" * 32, b"evidence")
    shown = await asked.answer(feed.Inspect(1, "offences"))
    assert shown == [
        {"author": b"k" * 32, "slot": 9, "evidence": EVIDENCE.encode(DoubleHeader(b"first", b"second"))},
        {"author": b"v" * 32, "evidence": b"evidence"},
    ]
    for number in range(OFFENCES_KEPT):
        asked.on_evidence(b"v" * 32, b"%d" % number)
    assert len(await asked.answer(feed.Inspect(1, "offences"))) == OFFENCES_KEPT  # type: ignore[arg-type]


@pytest.mark.trio
async def test_handoffs_are_given_in_pages_and_without_gaps() -> None:
    kept = {number: b"%d" % number for number in range(40) if number != 30}
    chain = SimpleNamespace(storage=SimpleNamespace(handoff=kept.get))
    asked = Answers(SimpleNamespace(chain=chain), list)  # type: ignore[arg-type]  # only handoffs are asked for
    most = list(range(5, 5 + feed.HANDOFFS_MAX))
    table = {(0, 3): [0, 1, 2], (5, 1_000): most, (28, 9): [28, 29], (30, 2): [], (7, 0): []}
    for (first, count), numbers in table.items():
        assert await asked.answer(feed.HandoffsFrom(1, first, count)) == [b"%d" % number for number in numbers]
