"""The daemon never acts on a lie of its node (B3, B4). A real RPC server, a played node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from genesis import dev_accounts
from gpu_tasks.provider.chain.live import LiveChain, OwnDevices
from gpu_tasks.provider.chain.port import ChainError, SeenOffence
from gpu_tasks.provider.keys import provider_key
from played_node import PlayedNode, served
from runtime.blocks.block import HEADER
from runtime.blocks.evidence import EVIDENCE, DoubleBallot, DoubleHeader
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign
from staged import staged
from wallet.proved.pins import PIN_FILE, ChainChangedError, Pin
from wallet.rpc import RpcConnection, RpcJson
from wallet.trust import Trust

ALICE, NOBODY = dev_accounts.stash("Alice"), b"n" * 32
KEY = provider_key("//Alice//provider", None)
Lies = dict[str, Callable[[RpcJson], RpcJson]]
SUBMITTING = "author_submitExtrinsic"


@dataclass(frozen=True, slots=True)
class Scene:
    """A connected daemon's chain after one final block, its warnings, and changes of answers."""

    node: PlayedNode
    chain: LiveChain
    lies: Lies
    told: list[str]


@asynccontextmanager
async def connected(folder: Path, *, is_blind: bool = False) -> AsyncIterator[Scene]:
    lies: Lies = {}
    told: list[str] = []
    honest = RpcConnection.call

    async def call(rpc: RpcConnection, method: str, *parameters: RpcJson) -> RpcJson:
        return lies.get(method, lambda said: said)(await honest(rpc, method, *parameters))

    with patch.object(RpcConnection, "call", call):
        async with served(folder) as (node, port):
            node.author()
            trust = Trust(folder / "provider", is_blind=is_blind)
            chain = await LiveChain.connect(f"ws://127.0.0.1:{port}", KEY, trust, told.append)
            await until_final(node, chain)
            try:
                yield Scene(node, chain, lies, told)
            finally:
                await chain.close()


on_a_chain = staged(connected)


async def until_final(node: PlayedNode, chain: LiveChain) -> None:
    while int((await chain.client.rpc.call("ogpu_status"))["final"]["number"]) < node.final:
        await asyncio.sleep(0.01)


def without_nodes(answer: RpcJson) -> RpcJson:
    return {**answer, "proof": []}


def of_another_state(answer: RpcJson) -> RpcJson:
    return {**answer, "header": {**answer["header"], "stateRoot": "0x" + "ab" * 32}}


def signed_by_nobody(answer: RpcJson) -> RpcJson:
    return {**answer, "certificate": answer["certificate"][:-64] + "00" * 32}


QUESTIONS: dict[str, tuple[str, Callable[[LiveChain], Awaitable[object]]]] = {
    "duties": ("ogpu_callProof", lambda chain: chain.standing()),
    "a unit": ("ogpu_callProof", lambda chain: chain.unit(bytes(32))),
    "a final unit": ("ogpu_callProof", lambda chain: chain.final_unit(bytes(32))),
    "possible checkers": ("ogpu_callProof", lambda chain: chain.checking_readers()),
    "a claim": ("ogpu_callProof", lambda chain: chain.claim(bytes(32))),
    "ballots": ("ogpu_callProof", lambda chain: chain.final_ballots()),
    "whose key": ("ogpu_callProof", lambda chain: chain.stash_of(KEY.public_key)),
    "a service": ("state_getReadProof", lambda chain: chain.service(0)),
    "services": ("state_getReadProof", lambda chain: chain.services()),
    "a provider": ("state_getReadProof", lambda chain: chain.provider(ALICE)),
    "providers": ("state_getReadProof", lambda chain: chain.providers()),
    "own devices": ("state_getReadProof", lambda chain: chain.own_devices()),
    "a tombstone": ("state_getReadProof", lambda chain: chain.is_tombstoned(ALICE)),
}


@pytest.mark.parametrize("question", QUESTIONS)
@on_a_chain
async def test_whatever_the_daemon_acts_on_is_proved_and_a_lie_costs_a_retry(scene: Scene, question: str) -> None:
    method, ask = QUESTIONS[question]
    await scene.chain.standing()
    for lied, lie in (
        (method, without_nodes), ("ogpu_certifiedHeader", of_another_state),
        ("ogpu_certifiedHeader", signed_by_nobody), ("ogpu_certifiedHeader", lambda _: None),
    ):  # fmt: skip
        scene.node.author()  # of a block that was shown to be final before, no certificate matters
        await until_final(scene.node, scene.chain)
        scene.lies[lied] = lie
        with pytest.raises(ChainError, match="not believe"):
            await ask(scene.chain)
        del scene.lies[lied]
    await ask(scene.chain)


@on_a_chain
async def test_no_new_connection_takes_who_is_at_work_back_to_an_older_state(scene: Scene) -> None:
    """In an older state, a reader may still have the key before the one that the input is sealed to."""
    old = await scene.chain.client.rpc.call("ogpu_certifiedHeader")
    scene.node.author()
    await until_final(scene.node, scene.chain)
    assert (await scene.chain.standing())[0] == 2
    scene.lies["ogpu_certifiedHeader"] = lambda _: old
    with pytest.raises(ChainError, match=r"block is 1; .*block 2$"):
        await scene.chain._same_chain()
    del scene.lies["ogpu_certifiedHeader"]
    again = await scene.chain._same_chain()
    assert await again.height(await again.finalized()) == 2
    await again.rpc.close()


@staged(partial(connected, is_blind=True))
async def test_who_trusts_the_node_is_told_so_and_believes_it(scene: Scene) -> None:
    scene.lies["ogpu_certifiedHeader"] = of_another_state
    scene.lies["state_call"] = lambda _: "0x00"
    assert (await scene.chain.standing())[1] == ()
    assert "is believed without proof" in scene.told[0]


@on_a_chain
async def test_devices_that_a_node_denies_are_looked_up_all_the_same(scene: Scene) -> None:
    """The list of devices is a hint and their records are proved, so others' devices are not mistaken for own ones."""
    known = await scene.chain.own_devices()
    assert [status.device.owner for status in known] == [ALICE]
    scene.lies["state_call"] = lambda _: "0x00"
    assert await scene.chain.own_devices() == known
    scene.chain._devices.heard_of(NOBODY)
    assert await scene.chain.own_devices() == known
    of_nobody = OwnDevices(NOBODY)
    of_nobody.heard_of(known[0].id)
    assert await of_nobody.read(scene.chain.client) == []


def of_height(height: int, answer: RpcJson) -> RpcJson:
    return {**answer, "number": hex(height)}


def the_clock(slots: int | None, _: bytes) -> int | None:
    return slots


@on_a_chain
async def test_how_far_the_chain_has_come_is_believed_only_as_far_as_the_clock(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await scene.chain.client.finalized()
    for said, room, believed in ((7, 5, 6), (3, 5, 3), (0, 5, 1), (4, None, 1)):
        scene.lies["chain_getHeader"] = partial(of_height, said)
        monkeypatch.setattr(scene.chain.client, "slots_since", partial(the_clock, room))
        assert await scene.chain._best_height(1, at) == believed


@on_a_chain
async def test_what_a_node_has_seen_is_known_by_its_offender(scene: Scene) -> None:
    public, secret = keypair_from_seed(Scheme.ED25519, dev_accounts.key_seed("Alice", dev_accounts.SESSION))
    ballots = [Ballot(BallotKind.NOTARISE, 0, 1, 1, bytes([number]) * 32) for number in (1, 2)]
    signatures = [
        sign(Scheme.ED25519, public, secret, ballot_payload(scene.node.chain.genesis_hash, ballot))
        for ballot in ballots
    ]
    evidence = DoubleBallot(public, ballots[0], signatures[0], ballots[1], signatures[1])
    shown = {"evidence": "0x" + EVIDENCE.encode(evidence).hex()}
    scene.lies["ogpu_inspect"] = lambda _: [shown]
    assert await scene.chain.offences() == [SeenOffence(dev_accounts.stash("Alice"), evidence)]


@on_a_chain
async def test_offences_that_a_node_makes_up_are_not_reported(scene: Scene) -> None:
    """Each report would cost a fee, and a node can invent any number of names."""
    header = scene.node.chain.head
    forged = DoubleHeader(*(HEADER.encode(replace(header, extrinsics_root=bytes([number]) * 32)) for number in (1, 2)))
    key = dev_accounts.key("Alice", dev_accounts.SESSION)
    ballots = [Ballot(BallotKind.NOTARISE, 0, 1, 1, bytes([number]) * 32) for number in (1, 2)]
    unsigned = DoubleBallot(key, ballots[0], bytes(64), ballots[1], bytes(64))
    made_up = ["0x" + EVIDENCE.encode(evidence).hex() for evidence in (forged, unsigned)]
    scene.lies["ogpu_inspect"] = lambda _: [{"evidence": text} for text in (*made_up, "0x00")] * 1_000
    assert await scene.chain.offences() == []


@on_a_chain
async def test_another_chain_than_the_known_one_ends_the_program_before_anything_is_signed(
    scene: Scene, tmp_path: Path
) -> None:
    path = tmp_path / "provider" / PIN_FILE
    pin = Pin(**json.loads(path.read_text()))
    path.write_text(json.dumps(asdict(replace(pin, genesis="0x" + "ab" * 32))))
    asked: list[RpcJson] = []
    scene.lies[SUBMITTING] = asked.append
    with pytest.raises(ChainChangedError, match="another chain"):
        await LiveChain.connect(scene.chain._url, KEY, scene.chain._trust)
    with pytest.raises(ChainChangedError):  # and so for a daemon that runs, which waits
        await scene.chain._same_chain()
    assert not asked


@on_a_chain
async def test_a_connection_to_the_known_chain_is_the_same_chain(scene: Scene) -> None:
    again: Any = await scene.chain._same_chain()
    assert again.genesis_hash == scene.chain.genesis_hash
    await again.rpc.close()
