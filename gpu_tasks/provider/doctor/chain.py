"""Checks of the chain for this provider: the node, the registration, the devices, the blob store.

Invariant: nothing is sent to the chain. A failed read is a diagnosis too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.proven_rates import why_no_work
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import RollCallView
from gpu_tasks.provider.execution.diagnoses import Diagnosis, bad, good, weak
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.keys import FUND_KEY, PROVIDER_KEY_LEAST, poor_key
from runtime.cryptography import ss58
from wallet.amounts import format_amount

SLOTS_BEHIND_MAX = 30
"""Blocks become final within a few slots. A longer delay means an isolated node or a wrong clock."""
NO_BLOB = bytes(32)
"""An address that no blob has."""


WhyPaused = Callable[[DeviceStatus], str]
"""A function that returns the cause of a device's pause, from the notes of the base path."""


async def chain_diagnoses(chain: LiveChain, hardware: Sequence[Hardware], why_paused: WhyPaused) -> list[Diagnosis]:
    """Return the diagnoses of a chain that answers and knows the key. Raise ChainError if it stops answering."""
    devices = await chain.own_devices()
    return [
        good("key", f"works for {ss58.encode(chain.stash)}"),
        await _finality(chain),
        *_devices(devices, hardware, why_paused),
        *_roll_calls(devices, await chain.roll_call([status.id for status in devices])),
        await _key_funds(chain),
        await _funds(chain),
        await _store(chain),
    ]


async def _finality(chain: LiveChain) -> Diagnosis:
    height, _ = await chain.standing()
    behind = chain.client.slots_since(await chain.client.finalized())
    if behind is None:
        return weak("node", f"at block {height:,}, trusted without proofs", "remove --trust-node")
    if behind > SLOTS_BEHIND_MAX:
        says = f"block {height:,} is {behind:,} slots old: a node cut off, a stopped network, or a wrong clock"
        return bad("node", says, "check the node's peers and this machine's clock (timedatectl)")
    return good("node", f"at block {height:,}, {behind} slots behind this clock")


def _devices(devices: Sequence[DeviceStatus], hardware: Sequence[Hardware], why_paused: WhyPaused) -> list[Diagnosis]:
    here = {piece.uuid_hash: piece.name for piece in hardware}
    if not devices:
        return [bad("devices", "none is registered, so none gets work", "ogpu-provider register")]
    return [_device(status, here.get(status.device.uuid_hash), why_paused) for status in devices]


def _device(status: DeviceStatus, name: str | None, why_paused: WhyPaused) -> Diagnosis:
    check = f"0x{status.id.hex()[:8]}.."
    if name is None:
        return bad(
            check, "is not on this machine, so `run` pauses it", "run the daemon on its machine, or unregister it"
        )
    if status.device.is_paused:
        says = f"{name} is paused, so it gets no work: {why_paused(status)}"
        return weak(check, says, "run `ogpu-provider resume` if `run` does not resume it")
    if not status.offers:
        return weak(check, f"{name} offers no service; it can still bid for tasks", "ogpu-provider offer")
    return good(check, f"{name}, {len(status.offers)} offers, bonded with {format_amount(status.device.bond)} oGPU")


def _roll_calls(devices: Sequence[DeviceStatus], view: RollCallView) -> list[Diagnosis]:
    """Return a diagnosis for each device that gets no work, or soon none, because it proved too little."""
    found = []
    for status in devices:
        check, why = f"0x{status.id.hex()[:8]}.. at roll calls", why_no_work(view.rates, status.id, status.device.kind)
        # A chain without roll calls needs no enrolment.
        if status.id not in view.enrolled and (view.planned or view.called is not None):
            says = why or "not enrolled: it gets no work after the roll call"
            found.append(bad(check, says, "run `ogpu-provider bench`, then `ogpu-provider enrol`"))
        elif why:
            found.append(
                bad(check, why, "keep `run` running through the next roll call; lower --work if its proof was late")
            )
    return found


async def _key_funds(chain: LiveChain) -> Diagnosis:
    grains = await chain.key_balance()
    if grains < PROVIDER_KEY_LEAST:
        return bad("key's funds", poor_key(grains), FUND_KEY)
    return good("key's funds", f"the provider key has {format_amount(grains)} oGPU")


async def _funds(chain: LiveChain) -> Diagnosis:
    free = await chain.spendable()
    says = f"the stash has {format_amount(free)} oGPU free"
    if free:
        return good("funds", f"{says}, enough for judges' collateral and bids")
    return weak("funds", f"{says}, too little to judge or to bid", "send money to it, or unbond a part")


async def _store(chain: LiveChain) -> Diagnosis:
    provider = await chain.provider(chain.stash)
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        return bad("blob store", "the chain has no endpoint of this provider", "ogpu-provider register --endpoint ...")
    async with BlobClient(private=chain.is_development) as blobs:
        try:
            await blobs.get_from(endpoint, NO_BLOB)
        except BlobError as error:
            # A store that lacks this blob is alive: its address has none.
            if error.code == "not_stored":
                return good("blob store", f"{endpoint} answers, as seen from here")
            says = f"{endpoint} serves no blobs, as seen from here: {error}"
            return bad("blob store", says, "check that `run` is running and --blob-host is reachable")
    return bad(
        "blob store", f"{endpoint} serves a blob that was never stored", "check that it is this provider's own daemon"
    )
