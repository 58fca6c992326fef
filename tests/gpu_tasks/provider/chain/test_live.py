"""Calls reach the node exactly once each. The node is a fake that answers as Substrate's pool does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from genesis.chain import apis_for
from genesis.presets import load_spec
from gpu_tasks.data import claim_reads, market_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX
from gpu_tasks.provider.chain import live, offences, task_records
from gpu_tasks.provider.chain.live import ALREADY_KNOWN, LiveChain
from gpu_tasks.provider.chain.port import ChainError
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient, UnknownRulesError
from wallet.keypair import Keypair
from wallet.proved.pins import ChainChangedError
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.trust import Trust
from wallet.verified import VerifiedClient

SPEC = load_spec("dev")
KEY = Keypair.from_seed(Scheme.ED25519, b"k" * 32)
CALL, OTHER = (Devices.resume(device=bytes([number]) * 32) for number in (1, 2))


class FakeNodeClient:
    """Signs with a counter. Every submission takes the next of `answers`."""

    genesis_hash = bytes(32)
    chain = "a chain"
    patience: float | None = None

    def __init__(self, *answers: Exception | None) -> None:
        self.rpc = self.runtime = self.call_codec = self
        self.answers = list(answers)
        self.signed = 0
        self.sent: list[str] = []

    def encode(self, call: Call) -> bytes:
        return repr(call).encode()

    async def sign(self, call: Call, key: Keypair) -> bytes:
        self.signed += 1
        return bytes([self.signed])

    async def call(self, method: str, *params: str) -> str:
        self.sent.append(params[0])
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return "0x"


def live_chain(client: Any, told: list[str] | None = None) -> LiveChain:
    """Return a chain over a trusted node; `test_live_by_proof` tests proofs."""
    tell = (lambda _: None) if told is None else told.append
    return LiveChain("ws://nowhere", client, KEY, bytes(32), Trust(Path("nowhere"), is_blind=True), tell)


def submit(client: FakeNodeClient, *calls: Call) -> list[str]:
    async def main() -> None:
        chain = live_chain(client)
        for call in calls:
            await chain.submit(call)

    asyncio.run(main())
    return client.sent


def test_a_call_that_is_sent_again_is_the_same_extrinsic() -> None:
    assert submit(FakeNodeClient(), CALL, OTHER, CALL) == ["0x01", "0x02", "0x01"]
    assert submit(FakeNodeClient(None, RpcError(ALREADY_KNOWN, "Already imported")), CALL, CALL) == ["0x01", "0x01"]


def test_one_that_is_stale_is_signed_anew_only_when_it_is_wanted_once_more() -> None:
    stale = RpcError(1010, "Invalid Transaction", "stale")
    assert submit(FakeNodeClient(None, stale, None), CALL, CALL, CALL) == ["0x01", "0x01", "0x02"]


def test_what_the_node_refuses_at_first_is_an_error() -> None:
    for error in (RpcError(1016, "Immediately dropped"), NodeUnreachableError("gone")):
        client = FakeNodeClient(error)
        with pytest.raises(ChainError):
            submit(client, CALL)
        assert submit(client, CALL) == ["0x01", "0x02"]


def test_a_service_that_is_no_more_is_said_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market_reads, "service", AsyncMock(return_value=None))
    client = FakeNodeClient()
    with pytest.raises(ChainError, match="service 3 on"):
        asyncio.run(live_chain(client).service(3))


ODD: list[object] = [
    None,
    "x",
    "0x",
    "0x00",
    7,
    [],
    {},
    [{}],
    {"number": None},
    {"number": "x"},
    [{"first": 1}],
    [["0x"]],
    "0xzz",
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_an_odd_answer_costs_a_retry_and_never_the_daemon(odd: object) -> None:
    """B11: any answer of a node leads to a ChainError, as if the node were offline."""

    class OddRpc(FakeNodeClient):
        """A real client's reads over a node that answers the same odd thing to everything."""

        async def call(self, method: str, *params: object) -> Any:
            return odd

    client = ChainClient(cast("Any", OddRpc()), apis_for(SPEC.parameters, is_development=True), bytes(32), "odd")
    chain = live_chain(client)
    unit = b"u" * 32
    for question in (
        chain.standing(), chain.final_unit(unit), chain.unit(unit), chain.service(0), chain.services(),
        chain.providers(), chain.provider(unit), chain.own_devices(), chain.checking_readers(),
        chain.task_of_claim(unit), chain.claim(unit), chain.item_dispute(unit, final=True), chain.final_ballots(),
        chain.stash_of(unit), chain.offences(), chain.is_tombstoned(unit),
        chain.submit(CALL),
    ):  # fmt: skip
        with contextlib.suppress(ChainError):
            await question


class OddNode:
    """A node that is connected to repeatedly. `heights` are its claimed best heights."""

    genesis_hash = bytes(32)

    def __init__(self, *heights: object) -> None:
        self.rpc = self
        self.heights = list(heights)

    async def close(self) -> None:
        """Nothing is open."""

    async def best_heads(self) -> AsyncIterator[object]:
        async def all_heads() -> AsyncIterator[object]:
            while self.heights:
                yield {}
                await asyncio.sleep(0)

        return all_heads()

    async def height(self, at: bytes | None = None) -> object:
        return int(self.heights.pop(0))  # type: ignore[call-overload]  # odd ones are none


def test_views_go_on_after_odd_heights_odd_nodes_and_another_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon waits for its own chain, because the journal holds its duties there."""
    other = OddNode(7)
    other.genesis_hash = b"o" * 32
    nodes: list[Any] = [
        OddNode("x"), OddNode(None), UnknownRulesError("odd"), ChainChangedError("the pin"), OddNode(),
        RpcError(1, "no"), other, OddNode(2, 3),
    ]  # fmt: skip

    async def connect(*_: object) -> Any:
        node = nodes.pop(0)
        if isinstance(node, Exception):
            raise node
        return node

    async def none(*_: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(VerifiedClient, "connect_by", connect)
    monkeypatch.setattr(live, "RECONNECT_SECONDS", (0.0,))
    monkeypatch.setattr(market_reads, "duties", none)
    monkeypatch.setattr(claim_reads, "claim_duties", none)
    monkeypatch.setattr(claim_reads, "ballots", none)
    told: list[str] = []

    async def main() -> list[int]:
        chain = live_chain(nodes.pop(0), told)
        views = chain.views()
        return [(await anext(views)).height for _ in range(2)]

    assert asyncio.run(main()) == [2, 3]
    assert any("another chain" in text and "nothing is signed until" in text for text in told)
    assert any("the pin" in text for text in told)


REVEAL_SECONDS = 10
"""Of the shortest window, on a devnet."""
SILENT_SECONDS = REVEAL_SECONDS // 2


def test_a_node_that_is_not_believed_for_long_is_asked_again_before_a_lease_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The daemon does not wait for a mute node either, and gives it more time with each try, up to a limit."""
    waits: list[float] = []
    patience: list[object] = []
    sleep = asyncio.sleep

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async def connect(*arguments: object) -> Any:
        patience.append(arguments[-1])
        if len(waits) < 4:
            raise NodeUnreachableError("a proof has too many nodes")
        if len(waits) < 9:
            raise NodeUnreachableError("it did not answer within 2 s") from TimeoutError()
        return OddNode(5)

    async def none(*_: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(VerifiedClient, "connect_by", connect)
    monkeypatch.setattr(asyncio, "sleep", wait)
    monkeypatch.setattr(market_reads, "duties", none)
    monkeypatch.setattr(claim_reads, "claim_duties", none)
    monkeypatch.setattr(claim_reads, "ballots", none)

    async def main() -> int:
        return (await anext(live_chain(OddNode("x")).views())).height

    assert asyncio.run(main()) == 5
    assert waits == [*[0.5] * 3, 1.0, *[2.0] * 5]
    assert patience == [*[2.0] * 4, *[2.0] * 2, 4.0, *[8.0] * 2]


def test_a_silence_of_half_a_reveal_window_is_over_before_the_window_is() -> None:
    """For any start of the silence. The worst is just after a question, and again at its end."""
    for eighth in range(8 * SILENT_SECONDS):  # of a second: so far into the silence the daemon asks first
        now, failures = eighth / 8, 0
        while now < SILENT_SECONDS:
            now += live.ANSWER_SECONDS[failures] + live.RECONNECT_SECONDS[failures]
            failures += 1
        assert now <= REVEAL_SECONDS - 2, "two blocks are left to reveal in"


def test_who_has_connected_waits_no_longer_than_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting takes long answers. Those that races depend on are short."""
    node = FakeNodeClient()

    async def connect(*arguments: object) -> Any:
        assert arguments[-1] == live.ANSWER_SECONDS[-1]
        return node

    monkeypatch.setattr(VerifiedClient, "connect_by", connect)
    monkeypatch.setattr(market_reads, "stash_of", AsyncMock(return_value=bytes(32)))
    asyncio.run(LiveChain.connect("ws://nowhere", KEY, Trust(Path("nowhere")), lambda _: None))
    assert node.patience == live.ANSWER_SECONDS[0]


class HintingNode:
    """A chain without devices, whose node names more of them than possible."""

    def __init__(self, hinted: int = 0) -> None:
        self.hinted = hinted
        self.named: list[bytes] = []
        self.unverified = lambda: self

    async def finalized(self) -> bytes:
        return bytes(32)

    async def query(self, *_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(id=number.to_bytes(32, "big")) for number in range(self.hinted)]

    async def read_many(self, _: object, names: list[bytes], *, at: bytes) -> list[None]:
        self.named = names
        return [None] * len(names)


def test_no_more_devices_are_asked_after_than_a_provider_has_or_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market_reads, "with_offers", AsyncMock(return_value=()))
    hinting, silent = HintingNode(2 * DEVICES_PER_PROVIDER_MAX), HintingNode()
    heard = live.OwnDevices(bytes(32))
    for number in range(2 * live.NAMES_MAX):
        heard.heard_of(b"h" + number.to_bytes(31, "big"))
    asyncio.run(heard.read(cast("Any", silent)))
    assert len(silent.named) == live.NAMES_MAX
    asyncio.run(heard.read(cast("Any", silent)))
    assert silent.named == [], "those that nobody registered are forgotten"
    asyncio.run(live.OwnDevices(bytes(32)).read(cast("Any", hinting)))
    assert len(hinting.named) == DEVICES_PER_PROVIDER_MAX


def test_a_list_of_all_providers_is_read_again_after_some_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    heights, read = list[int](), list[int]()

    async def providers(*_: object) -> dict[bytes, object]:
        read.append(heights[0])
        return {}

    async def height(_: bytes) -> int:
        return heights[0]

    monkeypatch.setattr(market_reads, "providers", providers)
    client: Any = SimpleNamespace(finalized=AsyncMock(return_value=bytes(32)), height=height)
    known = live.KnownProviders()
    for now in (7, 7 + live.PROVIDERS_KEPT_BLOCKS - 1, 7 + live.PROVIDERS_KEPT_BLOCKS):
        heights[:] = [now]
        asyncio.run(known.read(client))
    assert read == [7, 7 + live.PROVIDERS_KEPT_BLOCKS]


def test_so_much_of_an_answer_about_offences_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence of each past or present set counts, and none of an epoch without an election."""
    stored = {TrustStake.validator_set_starts: [2, 4], TrustStake.last_elected_epoch: 6}
    looked_at: list[object] = []

    async def call(*_: object) -> list[dict[str, str]]:
        return [{"evidence": "0x00"}] * 1_000

    async def read(item: object, *, at: bytes) -> object:
        return stored[cast("Any", item)]

    async def read_many(_: object, starts: list[int], *, at: bytes) -> list[list[int]]:
        return [[start] for start in starts]

    async def finalized() -> bytes:
        return bytes(32)

    def proven(evidence: object, _: bytes, validators: Any) -> None:
        looked_at.append([list(validators(epoch)) for epoch in range(1, 8)])

    monkeypatch.setattr(offences, "EVIDENCE", SimpleNamespace(decode=lambda raw: raw))
    monkeypatch.setattr(offences, "proven", proven)
    client: Any = SimpleNamespace(
        rpc=SimpleNamespace(call=call), read=read, read_many=read_many, finalized=finalized, genesis_hash=bytes(32)
    )
    assert asyncio.run(offences.offences(client)) == []
    assert looked_at == [[[], [2], [2], [4], [4], [4], []]] * offences.EVIDENCE_MAX


def test_each_balance_is_read_of_its_own_account(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spendable(_: object, account: bytes) -> bytes:
        return account

    monkeypatch.setattr(task_records, "spendable", spendable)
    chain = live_chain(FakeNodeClient())

    async def main() -> list[object]:
        return [await chain.spendable(), await chain.key_balance()]

    assert asyncio.run(main()) == [bytes(32), KEY.account]
