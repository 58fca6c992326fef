"""anvil, the development node of the Ethereum toolchain (Rust), from the npm registry, in one process.

Only defaults that would slow it down are changed: blocks may hold any number of transfers, and it prints nothing. It
signs the transfers itself before the measurement, so this project's code does not slow it.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.node import every_look, until
from benchmarks.peers.client import Client
from benchmarks.peers.race import Running
from benchmarks.peers.workload import Shape, Transfer, request
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.processes import listens

GAS_OF_A_TRANSFER = 21_000
GAS_OF_A_BLOCK = 30_000_000_000
GAS_PRICE = 2_000_000_000  # twice its first base fee, which falls in blocks less than half full
VALUE = 1_000_000
ENDOWMENT = 100 * 10**18
SIGNING_BATCH = 500
READY_SECONDS = 30.0


class Anvil:
    """anvil as a contestant. See `contestant.Contestant`."""

    name = "anvil"
    submit_method = "eth_sendRawTransaction"

    def __init__(self, program: Path, senders: int, block_seconds: str = "1") -> None:
        """Use anvil's own development accounts: the first half sends, the second half receives."""
        self._program, self._senders, self._block_seconds = program, senders, block_seconds

    def version(self) -> str:
        """Return anvil's version, from its own output."""
        said = subprocess.run([self._program, "--version"], capture_output=True, check=True, text=True).stdout
        return said.splitlines()[0].rpartition(" ")[2]

    @contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        """Run anvil. It is ready when its port is open and its accounts are written, which can happen later."""
        port, config = one_free_port(), folder / "config.json"
        options = {
            "--port": port,
            "--accounts": 2 * self._senders,
            "--balance": ENDOWMENT // 10**18,
            "--block-time": self._block_seconds,
            "--gas-limit": GAS_OF_A_BLOCK,
            "--config-out": config,
        }
        words = [str(word) for option in options.items() for word in option]
        with (folder / "anvil.log").open("wb") as log:
            process = subprocess.Popen(
                [self._program, "--silent", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            until(lambda: listens(port) and _is_whole(config), READY_SECONDS)
            self._accounts = json.loads(config.read_text(encoding="utf-8"))["available_accounts"]
            yield Running(f"http://127.0.0.1:{port}", {"anvil": process.pid})
        finally:
            process.kill()
            process.wait()

    def sign(self, transfers: Sequence[Transfer], folder: Path) -> Mapping[Transfer, str]:
        """Sign with a separate anvil, whose development keys are the same each time."""
        with self.running(folder) as started:
            return dict(zip(transfers, asyncio.run(self._sign(transfers, started.url)), strict=True))

    async def _sign(self, transfers: Sequence[Transfer], url: str) -> list[str]:
        signed: list[str] = []
        async with Client(url) as client:
            for start in range(0, len(transfers), SIGNING_BATCH):
                wanted = [
                    request("eth_signTransaction", [self._unsigned(transfer)], number)
                    for number, transfer in enumerate(transfers[start : start + SIGNING_BATCH])
                ]
                signed += await client.calls(wanted)
        return signed

    def _unsigned(self, transfer: Transfer) -> dict[str, str]:
        return {
            "from": self._accounts[transfer.sender],
            "to": self._accounts[self._senders + transfer.sender],
            "value": hex(VALUE),
            "nonce": hex(transfer.nonce),
            "gas": hex(GAS_OF_A_TRANSFER),
            "maxFeePerGas": hex(GAS_PRICE),
            "maxPriorityFeePerGas": hex(GAS_PRICE // 2),
        }

    async def wait_until_final(self, client: Client, shape: Shape) -> None:
        """Return when the new blocks contain all transfers.

        A mined block is final, because a single node has no reorganisation.
        """
        height = mined = 0
        async for _ in every_look():
            newest = int(await client.call("eth_blockNumber"), 16)
            while height < newest:
                height += 1
                mined += int(await client.call("eth_getBlockTransactionCountByNumber", hex(height)), 16)
            if mined == shape.transfers:
                return

    async def check(self, client: Client, shape: Shape) -> None:
        """Raise RuntimeError if a receiver's balance is wrong."""
        receivers = self._accounts[self._senders :]
        wanted = [request("eth_getBalance", [account, "latest"], number) for number, account in enumerate(receivers)]
        held = [int(balance, 16) for balance in await client.calls(wanted)]
        if held != [ENDOWMENT + shape.each * VALUE] * len(held):
            raise RuntimeError("a receiver lacks a transfer")


def _is_whole(config: Path) -> bool:
    """Return True if the file exists and is complete."""
    try:
        json.loads(config.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return True
