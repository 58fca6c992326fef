"""Four providers at one roll call of a devnet: enrol, answer, be killed, lie, be given work or none, withdraw.

Always: everything is done by the programs that people run; what is judged was read from final blocks.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from devnet.demo import purchase, stage
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes, programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.launcher.lifecycle import provider_process
from devnet.measuring import ledger
from devnet.proofs.roll_call.judging import CalledProvider, RollCallPart, RollCallTrace
from genesis import dev_accounts
from genesis.chain import genesis_state
from genesis.presets import load_spec
from genesis.spec import to_json
from gpu_tasks.data import market_reads
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from runtime.encoding.codec import U32, codec
from runtime.frame.storage import storage_prefix
from wallet.client import ChainClient

CAST = {
    "Alice": RollCallPart.KILLED,
    "Bob": RollCallPart.HONEST,
    "Charlie": RollCallPart.LIAR,
    "Dave": RollCallPart.WEAK,
}
WORK, LITTLE_WORK = "256x4096x60", "256x4096x1"
"""Some 32 and half a thousand million operations: the first is enough in up to 32 slots, the second never."""
FIRST_CALL, PERIOD = 90, 1_200
"""The specification plans a roll call early, which the first period would not have; the next is far away."""
NUMBERS = {"Capacity.roll_calls": 1, "Capacity.period": PERIOD, "Capacity.cpu_rate_min": 1}
UNITS = 4
"""Each with as many racers as have proven enough: one that has not would be among them."""
BLOCKS_MAX = 2 * FIRST_CALL
SLOW = 10.0
"""So many seconds a block at most, on a machine that others use too."""
ASK_SECONDS = 0.5


@dataclass(slots=True)
class RollCallStage:
    """The devnet, its devices, and what final blocks have said so far."""

    net: Devnet
    tell: Narrator
    devices: dict[str, bytes] = field(default_factory=dict)
    trace: RollCallTrace = field(default_factory=RollCallTrace)
    bonds: dict[bytes, int] = field(default_factory=dict)
    next_height: int = 1

    def read_on(self) -> int:
        """Take the events of new final blocks; the height of the newest."""
        return asyncio.run(self._read_on())

    def wait(self, what: str, condition: Callable[[], bool], blocks: int = BLOCKS_MAX) -> None:
        """Read on until something is so; DevnetError where so many blocks pass without it, or none comes."""
        last, moved = self.read_on() + blocks, time.monotonic()
        while not condition():
            before = self.next_height
            height = self.read_on()
            moved = time.monotonic() if self.next_height > before else moved
            if height > last or time.monotonic() > moved + SLOW * 10:
                raise DevnetError(f"{what} is not so at final block {height}")
            time.sleep(ASK_SECONDS)

    async def _read_on(self) -> int:
        async with await ChainClient.connect(self.net.members[0].rpc_url) as chain:
            height = await ledger.final_height(chain)
            for number in range(self.next_height, height + 1):
                records = await chain.events(await ledger.block_hash(chain, number))
                self.trace.take(record.event for record in records)
                self.next_height = number + 1
            return height


def call_early(net: Devnet, at: int = FIRST_CALL) -> None:
    """Have the chain's specification say when its first roll call is; nothing of it runs yet."""
    spec = load_spec(net.chain_spec.read_bytes())
    planned = {storage_prefix("Capacity", "Planned"): codec(U32).encode(at)}
    early = replace(spec, patch=None, raw=genesis_state(spec) | planned)
    net.chain_spec.write_text(to_json(early), encoding="utf-8")


def play(net: Devnet, tell: Narrator) -> tuple[RollCallStage, list[CalledProvider]]:
    """The whole roll call; what is to be judged."""
    found = RollCallStage(net, tell)
    asyncio.run(_know_devices(found))
    _let_lie(found)
    tell.step("Enrol: four devices, each with a bond")
    _all(lambda name: _enrol(found, name))
    found.read_on()
    if found.trace.is_called:
        raise DevnetError("the roll call began before all had enrolled: name a later block with --first-call")
    tell.step(f"Roll call: {len(CAST)} devices compute in the same blocks; a daemon is killed after its commit")
    _roll_call(found)
    tell.step("After it: who has proven enough is drawn for units, the others are told why not")
    purchase.buy(net, purchase.read_prompts(purchase.DEFAULT_PROMPTS, UNITS), tell)
    found.read_on()
    said = _all(lambda name: _asked(found, name))
    tell.step("Withdraw: bonds come back, but for the liar's")
    _all(lambda name: _sent(found, name, "withdraw", _named(found, name)))
    found.read_on()
    return found, said


async def _know_devices(found: RollCallStage) -> None:
    async with await ChainClient.connect(found.net.members[0].rpc_url) as chain:
        for name in CAST:
            (status,) = await market_reads.devices_of(chain, dev_accounts.stash(name))
            found.devices[name] = status.id


def _let_lie(found: RollCallStage) -> None:
    """From now on the liar's daemon makes up its rows."""
    for name in (name for name, part in CAST.items() if part is RollCallPart.LIAR):
        member = found.net.member(name)
        honest = provider_process(found.net, member)
        processes.stop(honest)
        cheating = (*stage.cheat_options("made-up-rows"), *honest.arguments)
        processes.start(replace(honest, module=stage.CHEAT_PROGRAM, arguments=cheating))
        network.wait_for_provider(found.net, member)


def _enrol(found: RollCallStage, name: str) -> None:
    work = LITTLE_WORK if CAST[name] is RollCallPart.WEAK else WORK
    _sent(found, name, "enrol", _named(found, name), "--work", work, "--yes")
    found.bonds[found.devices[name]] = asyncio.run(_bond_of(found, name))


async def _bond_of(found: RollCallStage, name: str) -> int:
    async with await ChainClient.connect(found.net.members[0].rpc_url) as chain:
        entry = await chain.read(Capacity.enrolments, found.devices[name])
        return 0 if entry is None else int(entry.bond)


def _roll_call(found: RollCallStage) -> None:
    found.wait("a roll call", lambda: found.trace.is_called)
    for name in (name for name, part in CAST.items() if part is RollCallPart.KILLED):
        path = telemetry(found.net, name)
        found.wait(f"the commit of {name}", lambda path=path: count(path, "roll_call_commit") > 0, 30)  # type: ignore[misc]  # bound at once
        process = provider_process(found.net, found.net.member(name))
        pid = processes.kill(process)
        processes.start(process)
        found.tell.line(f"killed the provider of {name} (process {pid}) after its commit, and started it again")
    everybody = set(found.devices.values())
    found.wait("that all have shown their rows", lambda: set(found.trace.opened) == everybody, times.CALL_BLOCKS)
    found.tell.line(f"all have shown their rows at final block {found.next_height - 1}; inspectors compute them again")
    over = asyncio.run(_over_at(found))
    found.wait("the end of the roll call", lambda: found.next_height > over, times.CALL_BLOCKS)
    rates = ", ".join(f"{name} {found.trace.rates.get(device, 0)}" for name, device in found.devices.items())
    objections = {name: found.trace.objections[device] for name, device in found.devices.items()}
    told = ", ".join(f"{count} to {name}" for name, count in objections.items() if count)
    found.tell.line(f"committed, in thousand millions of operations a slot: {rates}; objections: {told or 'none'}")


async def _over_at(found: RollCallStage) -> int:
    async with await ChainClient.connect(found.net.members[0].rpc_url) as chain:
        called = await chain.read(Capacity.current)
        if called is None:
            raise DevnetError("the chain knows of no roll call")
        return times.over_at(called)


def _asked(found: RollCallStage, name: str) -> CalledProvider:
    """What a provider's own programs say of its device."""
    device, hexed = found.devices[name], f"0x{found.devices[name].hex()}"
    (row,) = (row for row in json.loads(_program(found, name, "status")[1])["devices"] if row["device"] == hexed)
    says: list[str] = []
    if not CAST[name].may_work:  # it takes long, and ends with 1 where something is wrong
        _, said = _program(found, name, "doctor", "--sandbox", "none")
        says = [each["says"] for each in json.loads(said or "[]") if each["check"].endswith("at roll calls")]
    begun = count(telemetry(found.net, name), "roll_call")
    return CalledProvider(name, CAST[name], device, begun, row["why_no_work"], says[0] if says else None)


def _named(found: RollCallStage, name: str) -> str:
    return f"0x{found.devices[name].hex()[:12]}"


def _words(found: RollCallStage, name: str, *words: str) -> list[str]:
    member = found.net.member(name)
    base = str(found.net.home(member) / "provider")
    return ["--url", member.rpc_url, "--key", f"//{name}//provider", "--base-path", base, *words]


def _program(found: RollCallStage, name: str, *words: str) -> tuple[int, str]:
    return programs.tried("ogpu-provider", *_words(found, name, *words), keyring=found.net.keyring)


def _sent(found: RollCallStage, name: str, *words: str) -> None:
    """A command of the stash, which waits until its calls are final."""
    typed = _words(found, name, *words, "--stash", f"//{name}")
    programs.run("ogpu-provider", *typed, keyring=found.net.keyring, show=found.tell.command)


def _all(do: Callable[[str], Any]) -> list[Any]:
    """For everybody at once, as people would."""
    with ThreadPoolExecutor(len(CAST)) as pool:
        return list(pool.map(do, CAST))


def telemetry(net: Devnet, name: str) -> Path:
    """Where a provider writes what happened."""
    return net.home(net.member(name)) / "provider" / "telemetry.jsonl"


def count(path: Path, event: str) -> int:
    """How often a daemon told an event."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return sum(json.loads(line)["event"] == event for line in lines)
