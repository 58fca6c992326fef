"""How calls reach the node: once each. The node is a fake that answers as Substrate's pool does."""

import asyncio
from typing import Any, cast

import pytest

from gpu_tasks.data import market_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider.chain.live import ALREADY_KNOWN, LiveChain
from gpu_tasks.provider.chain.port import ChainError
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from wallet.keypair import Keypair
from wallet.rpc import NodeUnreachableError, RpcError

KEY = Keypair.from_seed(Scheme.ED25519, b"k" * 32)
CALL, OTHER = (Devices.resume(device=bytes([number]) * 32) for number in (1, 2))


class FakeNodeClient:
    """Signs with a counter; every submission meets the next of `answers`."""

    genesis_hash = bytes(32)
    chain = "a chain"

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


def submit(client: FakeNodeClient, *calls: Call) -> list[str]:
    async def main() -> None:
        chain = LiveChain("ws://nowhere", cast("Any", client), KEY, bytes(32))
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
    async def none(client: object) -> dict[int, object]:
        return {}

    monkeypatch.setattr(market_reads, "services", none)
    client = FakeNodeClient()
    with pytest.raises(ChainError, match="there is no service 3 on a chain"):
        asyncio.run(LiveChain("ws://nowhere", cast("Any", client), KEY, bytes(32)).service(3))
