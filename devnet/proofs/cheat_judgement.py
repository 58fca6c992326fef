"""What must have become of a cheat, mode by mode, and of everybody else: judged from the final chain.

What always holds: each amount is recomputed here from the state before the block that took it, with the formulas of the
money table, and compared to the grain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from devnet.demo.purchase import PRICE_MAX, name_of
from devnet.demo.stage import CHEAT
from devnet.launcher.layout import Devnet
from devnet.measuring import ledger
from devnet.measuring.ledger import DevnetLedger, UnitRecord, block_hash
from devnet.proofs.cheating.attempts import ACCEPTED
from genesis import dev_accounts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from runtime.cryptography.ss58 import encode as ss58
from runtime.pallets.staking.slashing import part
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient

COMMIT = "InferenceMarket.commit_result"
WRONG_WORK = ("flip-bit", "swapped-model")  # caught by a committee
NO_REVEAL = ("copied-result", "late-reveal")  # fined for the miss
MAY_EARN = ("replayed-attestation", "not-assigned")  # their own races they run honestly


@dataclass(frozen=True, slots=True)
class Check:
    """One amount: what was taken, and what the table says."""

    what: str
    unit: str
    block: int
    taken: int
    expected: int


@dataclass(slots=True)
class Finding:
    """What one mode came to."""

    mode: str
    units: int
    drawn: int = 0  # races that the cheat was drawn for
    tried: int = 0  # things that it sent and that it should not have
    refused: int = 0
    slashed: int = 0
    fined: int = 0
    checks: list[Check] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)  # of the chain, to what was tried
    failures: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """In words."""
        tried = f"tried {self.tried}, refused {self.refused}"
        return f"drawn {self.drawn}, {tried}, slashed {self.slashed}, fined {self.fined}"

    def as_json(self) -> dict[str, Any]:
        """For the report; amounts as text."""
        checks = [
            {**asdict(check), "taken": str(check.taken), "expected": str(check.expected)} for check in self.checks
        ]
        return {**asdict(self), "checks": checks}


async def judge(net: Devnet, mode: str, units: list[str], first: int, attempts: list[dict[str, Any]]) -> Finding:
    """Read the chain from height `first` on, and see whether every bar of this mode held for these units."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        book = await ledger.read(chain, first)
        records = {unit: book.unit(bytes.fromhex(unit[2:])) for unit in units}
        cheat = dev_accounts.stash(CHEAT)
        finding = Finding(mode, len(units))
        finding.drawn = sum(cheat in record.racers for record in records.values())
        _count_attempts(finding, attempts, records)
        finding.checks = await _amounts(chain, book)
        finding.slashed = sum(event.provider == cheat for _, event in book.slashes())
        finding.fined = sum(event.provider == cheat for _, event in book.misses())
        finding.failures = [*_of_everybody(records, book, cheat), *_of_the_cheat(finding, records, cheat)]
        return finding


def _count_attempts(finding: Finding, attempts: list[dict[str, Any]], records: dict[str, UnitRecord]) -> None:
    """A call is refused by the pool or in its block. An attestation is refused by the node, or by every author.

    A copied commitment is taken, because nobody can see what is in it; it is the reveal that must fail.
    """
    for attempt in attempts:
        answer = f"{attempt['what']}: {attempt['answer']}"
        finding.answers[answer] = finding.answers.get(answer, 0) + 1
    tries = [attempt for attempt in attempts if attempt["what"] != COMMIT or not _is_copy(finding)]
    attestations = [attempt for attempt in tries if attempt["what"] == "attestation"]
    refused_calls = sum(attempt["answer"] != ACCEPTED for attempt in tries if attempt["what"] != "attestation")
    finding.tried = len(tries)
    finding.refused = refused_calls + len(attestations) - sum(_undue(finding, record) for record in records.values())


def _is_copy(finding: Finding) -> bool:
    return finding.mode == "copied-result"


def _undue(finding: Finding, record: UnitRecord) -> int:
    """Attestations of the cheat in the chain beyond the one that an honest racer attaches."""
    cheat = dev_accounts.stash(CHEAT)
    attached = record.attesters().count(cheat)
    return max(0, attached - (0 if finding.mode in NO_REVEAL else record.racers.count(cheat)))


async def _amounts(chain: ChainClient, book: DevnetLedger) -> list[Check]:
    """Every slash and every fine, against the state before its block."""
    checks = []
    events: list[tuple[int, ProviderSlashed | RaceMissed]] = [*book.slashes(), *book.misses()]
    for height in sorted({height for height, _ in events}):
        before = Before(chain, await block_hash(chain, height - 1))
        for event in [event for at, event in events if at == height]:
            checks += await before.checks(height, event, book.unit(event.unit))
    return checks


@dataclass(slots=True)
class Before:
    """Stakes and bonds before a block, less what the block has taken so far."""

    chain: ChainClient
    block: bytes
    taken: dict[bytes, int] = field(default_factory=dict)

    async def checks(self, height: int, event: ProviderSlashed | RaceMissed, record: UnitRecord) -> list[Check]:
        """The amounts of one event."""
        unit = "0x" + event.unit.hex()
        if isinstance(event, RaceMissed):
            owners = [await self._owner(device) for device in record.devices]
            device = record.devices[owners.index(event.provider)]
            expected = part(await self._bond(device), DEFAULT_RULES.miss_penalty)
            self._take(device, event.amount)
            return [Check("1 % of the device's bond", unit, height, event.amount, expected)]
        stake = await self._stake(event.provider)
        self._take(event.provider, event.bond)
        self._take(event.device, event.collateral)
        collateral = money.collateral(DEFAULT_RULES, record.price, PRICE_MAX)
        expected = part(stake, DEFAULT_RULES.wrong_result_penalty)
        return [
            Check("the unit's collateral", unit, height, event.collateral, collateral),
            Check("10 % of the stake", unit, height, event.bond, expected),
        ]

    async def _stake(self, stash: bytes) -> int:
        stake: int = await self.chain.read(TrustStake.stakes, stash, stash, at=self.block)
        return stake - self.taken.get(stash, 0)

    async def _bond(self, device: bytes) -> int:
        bond: int = (await self.chain.read(Devices.devices, device, at=self.block)).bond
        return bond - self.taken.get(device, 0)

    async def _owner(self, device: bytes) -> bytes:
        owner: bytes = (await self.chain.read(Devices.devices, device, at=self.block)).owner
        return owner

    def _take(self, whose: bytes, amount: int) -> None:
        self.taken[whose] = self.taken.get(whose, 0) + amount


def _of_everybody(records: dict[str, UnitRecord], book: DevnetLedger, cheat: bytes) -> Iterator[str]:
    """Bars that hold in every mode."""
    for unit, record in records.items():
        if len(record.settled) != 1 or record.refunded:
            yield f"unit {unit} was settled {len(record.settled)} times and refunded {len(record.refunded)} times"
        attested = record.attesters()
        if len(attested) > len(record.racers) or any(provider not in record.racers for provider in attested):
            yield f"unit {unit} has an attestation of somebody who was not drawn, or one too many"
    events: list[tuple[int, ProviderSlashed | RaceMissed]] = [*book.slashes(), *book.misses()]
    for height, event in events:
        if event.provider != cheat:
            yield f"block {height}: {name_of(ss58(event.provider))} is honest and lost {event}"


def _of_the_cheat(finding: Finding, records: dict[str, UnitRecord], cheat: bytes) -> Iterator[str]:
    """Bars of the mode."""
    wrong = [check for check in finding.checks if check.taken != check.expected]
    yield from (f"{check.what} of {check.unit}: {check.taken} taken, {check.expected} expected" for check in wrong)
    if not finding.drawn and finding.mode != "not-assigned":
        yield "the cheat was never drawn: nothing was tested"
    paid = [unit for unit, record in records.items() if cheat in record.winners()]
    opened = [unit for unit, record in records.items() if cheat in record.attesters()]
    if finding.mode in WRONG_WORK:
        if finding.slashed != len(opened) or not opened:
            yield f"{len(opened)} wrong results were revealed, {finding.slashed} were slashed"
    elif not finding.tried or finding.refused != finding.tried:
        yield f"{finding.refused} of {finding.tried} attempts were refused"
    if finding.mode in NO_REVEAL and (not finding.fined or opened):
        yield f"fined {finding.fined} times; {len(opened)} attestations got into the chain"
    if finding.mode not in MAY_EARN and paid:
        yield f"the cheat was paid for {paid}"
    if finding.mode not in WRONG_WORK and finding.slashed:
        yield "slashed, though no wrong result was revealed"
