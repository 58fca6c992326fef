"""The commands of `ogpu-provider` that ask and show, or make one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.execution.gpu import find_hardware, why_no_gpu
from gpu_tasks.provider.journal.journal import Journal, JournalError
from gpu_tasks.provider.journal.records import End
from gpu_tasks.provider.registering import Registration, registration_calls
from runtime.cryptography import ss58
from runtime.pallets.utility import Utility
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.output import Grains, Output
from wallet.session import WalletSession

Body = Callable[[], Awaitable[None]]
COLUMNS = ("number", "name", "class", "memory_mib", "driver", "uuid_hash", "note")


def show_devices(output: Output, base_path: Path) -> None:
    """This machine's hardware; without a GPU the reason stands beside the CPU."""
    rows = [
        {
            "number": number,
            "name": one.name,
            "class": one.kind.name.lower(),
            "memory_mib": one.memory_mib,
            "driver": one.driver,
            "uuid_hash": one.uuid_hash,
            "note": "" if one.index is not None else f"NVML: {why_no_gpu()}",
        }
        for number, one in enumerate(find_hardware(base_path))
    ]
    output.rows("Devices of this machine", COLUMNS, rows)


def register(
    session: WalletSession, stash_key: str, wanted: Callable[[Keypair], Registration], *, dry_run: bool
) -> None:
    """Make the calls that are missing, in one extrinsic: all of them happen, or none."""

    async def body(client: ChainClient) -> None:
        key = session.key(stash_key)
        calls = await registration_calls(client, wanted(key))
        if not calls:
            session.output.facts({"registered": True, "calls": "none was missing"})
            return
        call = calls[0] if len(calls) == 1 else Utility.batch_all(calls=tuple(calls))
        session.output.facts({"stash": ss58.encode(key.account), "calls": ", ".join(one.name for one in calls)})
        await session.make(client, call, key, dry_run=dry_run)

    session.run(body)


async def show_status(output: Output, base_path: Path, chain: LiveChain) -> None:
    """Devices, duties, and the journal's balance."""
    devices = await chain.own_devices()
    rows = [
        {
            "device": one.id,
            "class": one.device.kind.name.lower(),
            "bond": Grains(one.device.bond),
            "paused": one.device.is_paused,
            "assignment": one.device.assignment,
            "asks": ", ".join(f"service {number}: {format_amount(offer.ask)} oGPU" for number, offer in one.offers),
        }
        for one in devices
    ]
    height, duties = await chain.standing()
    facts = {
        "stash": ss58.encode(chain.stash),
        "height": height,
        "duties": len(duties),
        **_journal_facts(base_path / "journal"),
    }
    if output.as_json:
        output.facts(facts | {"devices": [row["device"] for row in rows]})
        return
    output.facts(facts)
    output.rows("Devices on the chain", ("device", "class", "bond", "paused", "assignment", "asks"), rows)


def _journal_facts(path: Path) -> dict[str, Any]:
    """Sums over the journal, which a daemon may be writing."""
    if not path.exists():
        return {"journal": "none yet"}
    try:
        journal = Journal(path, is_reader=True)
    except JournalError as error:
        return {"journal": str(error)}
    ends = [entry for entry in journal.races.values() if entry.end is not None]
    journal.close()
    return {
        "races": len(journal.races),
        "open": len(journal.races) - len(ends),
        "won": sum(entry.end is End.WON for entry in ends),
        "witnessed": sum(entry.end is End.WITNESSED for entry in ends),
        "earned": Grains(sum(entry.paid for entry in ends)),
    }
