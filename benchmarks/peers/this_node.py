"""This node alone: the development chain with funded senders and receivers, the RPC process and the worker."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.funded import funded
from benchmarks.node import every_look, node, pids_by_role, until, wait_for_line, write_spec
from benchmarks.peers.client import Client
from benchmarks.peers.race import Running
from benchmarks.peers.workload import Shape, Transfer
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.status import answers
from genesis.chain import genesis_block_header, genesis_state, runtime_of
from genesis.spec import ChainSpec
from runtime.blocks.block import block_id
from runtime.blocks.extrinsic import Extra
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System
from simulation.chains.extrinsics import ed25519, signed_extrinsic

ENDOWMENT = 100 * GRAINS_PER_OGPU
VALUE = 1_000_000
READY_SECONDS = 60.0


class ThisNode:
    """This node as a contestant. See `contestant.Contestant`."""

    name = "ogpu"
    submit_method = "author_submitExtrinsic"

    def __init__(self, senders: int) -> None:
        """Make as many receivers as senders. The first sender pays the first receiver, and so on."""
        rng = random.Random(1)
        self._keys = [signatures.keypair_from_seed(Scheme.ED25519, rng.randbytes(32)) for _ in range(senders)]
        self._receivers = [rng.randbytes(32) for _ in range(senders)]
        self._spec: ChainSpec = funded([public for public, _ in self._keys] + self._receivers, ENDOWMENT)
        self._runtime = runtime_of(self._spec)
        self._account = self._runtime.item(System.account)

    @contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        """Run `ogpu-node --chain SPEC --alice`, which equals `--dev` with other accounts."""
        port = one_free_port()
        with node("ogpu-node", write_spec(self._spec, folder), folder, "--alice", "--rpc-port", str(port)) as process:
            wait_for_line(process, "final #1 ")
            until(lambda: answers(port), READY_SECONDS)
            yield Running(f"http://127.0.0.1:{port}", pids_by_role(process))

    def sign(self, transfers: Sequence[Transfer], folder: Path) -> Mapping[Transfer, str]:
        """Sign with the code of the wallets."""
        del folder
        genesis = block_id(genesis_block_header(genesis_state(self._spec)))
        return {transfer: self._signed(transfer, genesis) for transfer in transfers}

    def _signed(self, transfer: Transfer, genesis: bytes) -> str:
        public, secret = self._keys[transfer.sender]
        call = Balances.transfer_keep_alive(dest=self._receivers[transfer.sender], value=VALUE)
        extra = Extra(nonce=transfer.nonce)
        raw = signed_extrinsic(self._runtime, genesis, call, extra, public, ed25519(public, secret))
        return "0x" + raw.hex()

    async def wait_until_final(self, client: Client, shape: Shape) -> None:
        """Return when all senders have the last nonce in the newest final block."""
        senders = [public for public, _ in self._keys]
        seen = None
        async for _ in every_look():
            head = await client.call("chain_getFinalizedHead")
            # More reads of the same block would only take the node's CPU time.
            if head == seen:
                continue
            seen = head
            if all(info.nonce == shape.each for info in await self._accounts(client, senders, head)):
                return

    async def check(self, client: Client, shape: Shape) -> None:
        """Raise RuntimeError if a receiver's balance in the final state is wrong."""
        head = await client.call("chain_getFinalizedHead")
        held = [info.data.free for info in await self._accounts(client, self._receivers, head)]
        if held != [ENDOWMENT + shape.each * VALUE] * len(held):
            raise RuntimeError("a receiver lacks a transfer")

    async def _accounts(self, client: Client, who: list[bytes], at: str) -> list[AccountInfo]:
        keys = ["0x" + self._account.key(account).hex() for account in who]
        (found,) = await client.call("state_queryStorageAt", keys, at)
        return [self._account.decode(bytes.fromhex(value[2:])) for _, value in found["changes"]]
