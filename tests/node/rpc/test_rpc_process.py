"""The RPC server over real sockets, with a real chain behind a played feed."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from node.chain_commands import _final_block_of
from node.errors import BadInputError
from node.rpc.jsonrpc import RATE_LIMITED
from node.rpc.server import ServerOptions
from played_node import PlayedNode, served
from runtime.blocks.block import block_id
from runtime.cryptography.signatures import Scheme
from runtime.frame.errors import FundsUnavailable
from runtime.pallets.balances import Balances, Transfer
from runtime.pallets.system import System
from runtime.state.trie_proof import verify_proof
from wallet.client import ChainClient
from wallet.rpc import RpcConnection, RpcError
from wallet.suri import keypair_from_suri

ALICE, BOB = keypair_from_suri("//Alice"), keypair_from_suri("//Bob")
ED = keypair_from_suri("//Ed", Scheme.ED25519)

JSON = {"Content-Type": "application/json"}

Body = Callable[[PlayedNode, str], Awaitable[None]]


def run(folder: Path, body: Body, options: ServerOptions | None = None) -> None:
    async def main() -> None:
        async with served(folder, options) as (node, port):
            await body(node, f"127.0.0.1:{port}")

    asyncio.run(asyncio.wait_for(main(), 60))


async def soon(task: "asyncio.Task[Any]", node: PlayedNode) -> Any:
    """Author blocks until the task is done."""
    while not task.done():
        await asyncio.sleep(0.02)
        if node.pool:
            node.author()
    return task.result()


def test_transfer_with_both_kinds_of_signature(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        async with await ChainClient.connect(f"ws://{at}") as client:
            for key, to, amount in ((ALICE, ED, 5 * 10**8), (ED, BOB, 10**8)):
                call = Balances.transfer_keep_alive(dest=to.account, value=amount)
                outcome = await soon(asyncio.create_task(client.submit(call, key)), node)
                assert outcome.is_success
                assert Transfer(key.account, to.account, amount) in outcome.events
                assert outcome.block_hash == node.ids[-1]
            info = await client.read(System.account, ED.account, at=await client.finalized())
            assert 3 * 10**8 < info.data.free < 4 * 10**8
            assert info.nonce == 1 == await client.nonce(ED.account)

    run(tmp_path, body)


def test_failed_call_is_explained(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        async with await ChainClient.connect(f"ws://{at}") as client:
            call = Balances.transfer_keep_alive(dest=BOB.account, value=10**17)
            outcome = await soon(asyncio.create_task(client.submit(call, ALICE, until="inBlock")), node)
            sentence = "The account's spendable balance does not cover the amount."
            assert outcome.error == f"{FundsUnavailable.value.name}: {sentence}"

    run(tmp_path, body)


def test_fee_is_what_is_paid(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        async with await ChainClient.connect(f"ws://{at}") as client:
            call = Balances.transfer_keep_alive(dest=BOB.account, value=10**8)
            fee = await client.fee(call, ALICE)
            before = (await client.read(System.account, ALICE.account)).data.free
            await soon(asyncio.create_task(client.submit(call, ALICE)), node)
            assert before - (await client.read(System.account, ALICE.account)).data.free == 10**8 + fee

    run(tmp_path, body)


def test_heads_states_and_proofs_at_several_blocks(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        final = await rpc.subscribe("chain_subscribeFinalizedHeads", unsubscribe="chain_unsubscribeFinalizedHeads")
        best = await rpc.subscribe("chain_subscribeNewHeads", unsubscribe="chain_unsubscribeNewHeads")
        assert [(await anext(heads))["number"] for heads in (final, best)] == ["0x0", "0x0"]
        ids = [node.author(finalise=number != 3) for number in range(4)]
        assert [(await anext(best))["number"] for _ in range(4)] == ["0x1", "0x2", "0x3", "0x4"]
        assert [(await anext(final))["number"] for _ in range(3)] == ["0x1", "0x2", "0x3"]
        number_key = "0x" + node.chain.runtime.item(System.number).key().hex()
        for height, made in enumerate(ids, 1):
            raw = await rpc.call("state_getStorage", number_key, "0x" + made.hex())
            assert int.from_bytes(bytes.fromhex(raw[2:]), "little") == height
            assert await rpc.call("chain_getBlockHash", height) == "0x" + made.hex()
        proof = await rpc.call("state_getReadProof", [number_key], "0x" + ids[-1].hex())
        nodes = [bytes.fromhex(trie_node[2:]) for trie_node in proof["proof"]]
        key = bytes.fromhex(number_key[2:])
        assert verify_proof(node.chain.head.state_root, nodes, key) == (4).to_bytes(4, "little")
        assert block_id(node.chain.head) == ids[-1]
        await rpc.close()

    run(tmp_path, body)


def test_every_final_block_is_announced_although_best_jumps(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        final = await rpc.subscribe("chain_subscribeFinalizedHeads", unsubscribe="chain_unsubscribeFinalizedHeads")
        await anext(final)
        for number in range(5):
            node.author(finalise=number == 4)
        assert [(await anext(final))["number"] for _ in range(5)] == [hex(n) for n in range(1, 6)]
        await rpc.close()

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("body_text", "code"),
    [
        ("{", -32700),
        ("[" * 5000, -32700),
        ('{"a":NaN}', -32700),
        ("[]", -32600),
        ("5", -32600),
        ('{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"x","params":3}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"no_such"}', -32601),
        ('{"jsonrpc":"2.0","id":1,"method":"chain_getHeader","params":["zz"]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"chain_getHeader","params":["0x00"]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"chain_getBlockHash","params":[-1]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"chain_getBlockHash","params":[1,2]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"state_getKeysPaged","params":["0x",5000]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"state_call","params":["No_such","0x"]}', 4003),
        ('{"jsonrpc":"2.0","id":1,"method":"state_call","params":["Core_version","0x00"]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"payment_queryInfo","params":["0x1234"]}', 1010),
        ('{"jsonrpc":"2.0","id":1,"method":"system_accountNextIndex","params":["nobody"]}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"chain_subscribeNewHeads"}', -32600),
    ],
)
def test_bad_requests_get_a_clear_error(tmp_path: Path, body_text: str, code: int) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{at}/", data=body_text, headers=JSON) as response,
        ):
            answer = json.loads(await response.text())
            assert answer["error"]["code"] == code
            assert "Traceback" not in str(answer)

    run(tmp_path, body)


def test_batches_and_notifications_over_http(tmp_path: Path) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        calls = [{"jsonrpc": "2.0", "id": n, "method": "system_name"} for n in range(3)]
        calls.append({"jsonrpc": "2.0", "method": "system_name"})
        async with aiohttp.ClientSession() as session, session.post(f"http://{at}/", json=calls) as response:
            answers = await response.json()
        assert [answer["id"] for answer in answers] == [0, 1, 2]

    run(tmp_path, body)


def test_strangers_are_refused(tmp_path: Path) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        call = {"jsonrpc": "2.0", "id": 1, "method": "system_name"}
        async with aiohttp.ClientSession() as session:
            for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
                async with session.post(f"http://{at}/", json=call, headers=headers) as response:
                    assert response.status == 403

    run(tmp_path, body)


UNSAFE = {"state_getPairs": ("0x",), "author_rotateKeysWithOwner": ("0x" + "ab" * 32,)}
"""Methods with expensive answers, and methods that change the node's own files."""


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_methods_are_hidden_unless_allowed(name: str, tmp_path: Path) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        with pytest.raises(RpcError) as hidden:
            await rpc.call(name, *UNSAFE[name])
        assert hidden.value.code == -32601
        await rpc.close()

    run(tmp_path, body)


def test_chain_info_asks_a_node_that_runs(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        assert await _final_block_of(f"ws://{at}") == {
            "finalized_number": 0,
            "finalized_hash": "0x" + node.ids[0].hex(),
        }

    run(tmp_path, body)


def test_chain_info_says_that_nobody_answers() -> None:
    with pytest.raises(BadInputError, match=r"ws://127\.0\.0\.1:1"):
        asyncio.run(_final_block_of("ws://127.0.0.1:1"))


def test_who_may_has_new_keys_made_as_the_wallet_reads_them(tmp_path: Path) -> None:
    async def body(node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        given = await rpc.call("author_rotateKeysWithOwner", "0x" + "ab" * 32)
        assert given == {"keys": "0x" + node.new_keys[0].hex(), "proof": "0x" + node.new_keys[1].hex()}
        with pytest.raises(RpcError):
            await rpc.call("author_rotateKeysWithOwner", "no hex")
        await rpc.close()

    run(tmp_path, body, ServerOptions(unsafe_allowed=True))


def test_every_method_has_a_class_and_a_sentence(tmp_path: Path) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        offered = (await rpc.call("rpc_methods"))["methods"]
        legacy = {
            "chain_getHead", "state_getStorageAt", "account_nextIndex", "chain_getFinalisedHead",
            "state_getKeysPagedAt",
            "chain_subscribeNewHead", "state_callAt", "chain_getRuntimeVersion", "author_submitAndWatchExtrinsic",
        }  # fmt: skip
        assert legacy <= set(offered)
        await rpc.close()

    run(tmp_path, body)


def test_calls_are_limited(tmp_path: Path) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        for _ in range(5):
            await rpc.call("system_name")
        with pytest.raises(RpcError) as refused:
            await rpc.call("system_name")
        assert refused.value.code == RATE_LIMITED
        await rpc.close()

    run(tmp_path, body, ServerOptions(port=0, calls_per_minute=5))


def test_metadata_is_what_public_clients_read(tmp_path: Path) -> None:
    async def body(_node: PlayedNode, at: str) -> None:
        rpc = await RpcConnection.open(f"ws://{at}")
        raw = bytes.fromhex((await rpc.call("state_getMetadata"))[2:])
        assert raw[:5] == b"meta\x0e"
        await rpc.close()

    run(tmp_path, body)
