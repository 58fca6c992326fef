"""A node's claim that no block is final: believed at the chain's beginning, and refused after a final block."""

from dataclasses import replace
from pathlib import Path

import pytest

from consensus.parameters import DEVNET
from genesis.chain import apis_for
from played_node import SPEC, served
from runtime.pallets.system import System
from wallet.proved.chain import ProvedChain
from wallet.proved.refutation import NodeRefutedError
from wallet.proved.view import ProvedView
from wallet.rpc import RpcConnection, RpcError, RpcJson

APIS = apis_for(SPEC.parameters, is_development=True)
GONE = RpcError(-32000, "Client error: Api called for an unknown Block: State already discarded for 0x00")


async def test_a_node_that_hides_all_final_blocks_after_it_dropped_block_zero_is_named(tmp_path: Path) -> None:
    async with served(tmp_path) as (node, port), await RpcConnection.open(f"ws://127.0.0.1:{port}") as rpc:
        block_zero, is_open = "0x" + node.ids[0].hex(), False

        async def ask(method: str, *parameters: RpcJson) -> RpcJson:
            if method == "ogpu_certifiedHeader":
                return None
            if method == "state_getReadProof" and parameters[-1] == block_zero and is_open:
                raise GONE
            return await rpc.call(method, *parameters)

        chain = await ProvedChain.open("ws://liar", ask, APIS, DEVNET, node.chain.genesis_hash)
        assert await (await chain.newest()).read(System.number) == 0
        is_open = True
        with pytest.raises(NodeRefutedError, match="about the final block: it says that there is none yet"):
            await (await chain.newest()).read(System.number)
        zero = chain.root.block_zero  # the loss of a later state is no lie
        later = ProvedView("ws://liar", ask, APIS, replace(zero, header=replace(zero.header, number=7)))
        with pytest.raises(RpcError, match="already discarded"):
            await later.read(System.number)
