"""The budgets of a devnet: their owner, its commands, and the events of the final chain."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from devnet.launcher import programs
from devnet.launcher.processes import source_path
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, BlockFollower, Stage
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from gpu_tasks.market.budgets.budgets_api import BudgetStatus
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

SELLERS = ("Alice", "Bob")
"""The providers with places for sessions."""
PLACES = 4
PACE = 4
"""Output tokens in a block, which also a busy processor computes."""
DEPOSIT = 20
CAP_WORDS = ("--per-unit", "2", "--per-day", "6", "--total", "8")
KEEP_BLOCKS = 20
CHAIN_NUMBERS = {"InferenceMarket.unit_keep": KEEP_BLOCKS}
"""Records of ended units are dropped soon, so that a budget can be closed."""
BLOCKS_MAX = 1_500
"""The longest wait for an event."""
SELLING: dict[str, int] = {}
"""The service of each model that a devnet's folder sells."""


def sell_places(stage: Stage) -> None:
    """Create the service of the chosen model, and offer places for sessions of it."""
    model = stage.options.model
    sale = ModelSale(f"decoder-int8:{model}", model, SELLERS[0], SELLERS, pace=PACE)
    service = sell_model(stage, sale)
    devices = stage.ask(_devices)
    for name in SELLERS:
        device = "0x" + devices[dev_accounts.stash(name)].hex()
        stage.provider(name, "offer", device, "--service", str(service), "--ask", sale.ask, "--places", str(PLACES))
    SELLING[model] = service


async def _devices(chain: ChainClient) -> dict[bytes, bytes]:
    devices = await market_reads.devices(chain, await chain.finalized())
    return {status.device.owner: status.id for status in devices}


@dataclass(slots=True)
class BudgetOwner:
    """The owner of budgets. It counts the fees that its commands cost."""

    stage: Stage
    fees: int = 0
    gifts: int = 0
    """Grains for the fees of delegates."""

    def create(self) -> str:
        """Create a budget, and return its id."""
        return str(self._sent("create", "--deposit", str(DEPOSIT))["budget"])

    def grant(self, budget: str, delegate: str, *words: str) -> None:
        """Name a delegate, or change its caps. Give it money for its fees."""
        self._sent("grant", budget, delegate, *words, "--fees", "1")
        self.gifts += 10**8

    def revoke(self, budget: str, delegate: str) -> None:
        """Revoke a delegate."""
        self._sent("revoke", budget, delegate)

    def withdraw(self, budget: str, amount: str) -> None:
        """Take money out of a budget."""
        self._sent("withdraw", budget, amount)

    def close(self, budget: str) -> None:
        """Close a budget."""
        self._sent("close", budget)

    def _sent(self, command: str, *words: str) -> dict[str, Any]:
        output = self.stage.ogpu(f"budget {command}", *words, "--key", CUSTOMER_KEY, "--yes")
        outcome: dict[str, Any] = json.loads(output)
        self.fees += int(outcome["fee"]["grains"])
        return outcome

    def status(self, budget: str) -> BudgetStatus | None:
        """Return the budget as the newest final block has it; None once it is closed."""

        async def asked(chain: ChainClient) -> BudgetStatus | None:
            final = await chain.finalized()
            found: BudgetStatus | None = await chain.query("BudgetsApi_budget", bytes.fromhex(budget[2:]), at=final)
            return found

        return self.stage.ask(asked)

    def money(self, budget: str) -> int:
        """Return the free and the held grains of a budget."""
        found = self.status(budget)
        return 0 if found is None else found.free + found.held

    @property
    def wealth(self) -> int:
        """The grains of the owner's account, free or held."""
        return wealth_of(self.stage, CUSTOMER_KEY)


def wealth_of(stage: Stage, suri: str) -> int:
    """Return the grains of the account of a development key, free or held."""
    return stage.wealth({CUSTOMER: (keypair_from_suri(suri).account,)})[CUSTOMER]


@dataclass(slots=True)
class EventsSince:
    """The events of the final chain from the next block on, each with its height."""

    stage: Stage
    events: list[tuple[int, Any]] = field(default_factory=list)
    follower: BlockFollower = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the next block."""
        self.follower = BlockFollower(self.stage, self._take, self.stage.next_height())

    async def _take(self, _: ChainClient, height: int, __: bytes, event: Any) -> None:
        self.events.append((height, event))

    def of(self, kind: type, **fields: Any) -> list[tuple[int, Any]]:
        """Return the events of a kind with these fields."""
        return [
            (height, event)
            for height, event in self.events
            if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items())
        ]

    def until(self, what: str, kind: type, **fields: Any) -> list[tuple[int, Any]]:
        """Read on until an event of a kind with these fields has come, and return these events."""
        self.follower.until(what, lambda: bool(self.of(kind, **fields)), BLOCKS_MAX)
        return self.of(kind, **fields)


def asked(stage: Stage, question: str, *words: str) -> tuple[str, str | None]:
    """Run a command of `ogpu` with a question on standard input. Return its output, and the code of its error."""
    stage.narrator.command(f"$ echo '{question}' | {programs.as_typed('ogpu', *words)}")
    ended = subprocess.run(
        [sys.executable, "-m", programs.MODULES["ogpu"], "--url", stage.url, "--json", *words],
        input=question,
        capture_output=True,
        text=True,
        check=False,
        timeout=programs.SECONDS_MAX,
        env={**source_path(), "OGPU_KEYRING": str(stage.devnet.keyring)},
    )
    if ended.returncode == 0:
        return ended.stdout, None
    last = (ended.stderr.strip().splitlines() or [""])[-1]
    stage.narrator.line(last)
    try:
        return ended.stdout, str(json.loads(last)["code"])
    except (ValueError, KeyError, TypeError):
        return ended.stdout, last
