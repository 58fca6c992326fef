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
from gpu_tasks.provider.execution.gpu import Hardware, on_this_machine
from gpu_tasks.provider.keys import FUND_KEY, PROVIDER_KEY_LEAST, poor_key
from runtime.cryptography import ss58
from wallet.amounts import counted, format_amount

SLOTS_BEHIND_MAX = 30
"""Blocks become final within a few slots. A longer delay means an isolated node or a wrong clock."""
NO_BLOB = bytes(32)
"""An address that no blob has."""


WhyPaused = Callable[[DeviceStatus], str]
"""A function that returns the cause of a device's pause, from the notes of the base path."""


async def chain_diagnoses(
    live_chain: LiveChain, hardware: Sequence[Hardware], why_paused: WhyPaused
) -> list[Diagnosis]:
    """Return the diagnoses of a chain that answers and knows the key. Raise ChainError if it stops answering."""
    own_statuses = await live_chain.own_devices()
    roll_call_view = await live_chain.roll_call([device_status.id for device_status in own_statuses])
    # A chain without roll calls holds nothing for proofs.
    has_roll_calls = bool(roll_call_view.planned) or roll_call_view.called is not None
    unproven = len(own_statuses) - len(roll_call_view.open_proofs)
    proofs_hold = unproven * await live_chain.proof_hold() if has_roll_calls else 0
    return [
        good("key", f"works for {ss58.encode(live_chain.stash)}"),
        await _finality_diagnosis(live_chain),
        *_devices(own_statuses, hardware, why_paused),
        *_roll_call_diagnoses(own_statuses, roll_call_view),
        await _key_funds_diagnosis(live_chain),
        await _funds_diagnosis(live_chain, proofs_hold),
        await _store(live_chain),
    ]


async def _finality_diagnosis(live_chain: LiveChain) -> Diagnosis:
    block_height, _ = await live_chain.standing()
    slots_behind = live_chain.client.slots_since(await live_chain.client.finalized())
    if slots_behind is None:
        return weak("node", f"at block {block_height:,}, trusted without proofs", "remove --trust-node")
    if slots_behind > SLOTS_BEHIND_MAX:
        finding_text = (
            f"block {block_height:,} is {slots_behind:,} slots old: a node cut off, a stopped network, or a wrong clock"
        )
        return bad("node", finding_text, "check the node's peers and this machine's clock (timedatectl)")
    return good("node", f"at block {block_height:,}, {slots_behind} slots behind this clock")


def _devices(
    device_statuses: Sequence[DeviceStatus], hardware: Sequence[Hardware], why_paused: WhyPaused
) -> list[Diagnosis]:
    hardware_by_device = on_this_machine(device_statuses, hardware)
    if not device_statuses:
        return [bad("devices", "none is registered, so none gets work", "ogpu-provider register")]
    return [
        _device(device_status, hardware_by_device.get(device_status.id), why_paused)
        for device_status in device_statuses
    ]


def _device(device_status: DeviceStatus, hardware: Hardware | None, why_paused: WhyPaused) -> Diagnosis:
    check_name = f"0x{device_status.id.hex()[:8]}.."
    if hardware is None:
        return bad(
            check_name, "is not on this machine, so `run` pauses it", "run the daemon on its machine, or unregister it"
        )
    if device_status.device.is_paused:
        finding_text = f"{hardware.name} is paused, so it gets no work: {why_paused(device_status)}"
        return weak(check_name, finding_text, "run `ogpu-provider resume` if `run` does not resume it")
    if not device_status.offers:
        return weak(check_name, f"{hardware.name} offers no service; it can still bid for tasks", "ogpu-provider offer")
    bond = format_amount(device_status.device.bond)
    return good(check_name, f"{hardware.name}, {counted(len(device_status.offers), 'offer')}, bonded with {bond} oGPU")


PROVED_TOO_LITTLE, TOO_POOR_TO_PROVE = "proved_too_little", "too_poor_to_prove"


def _roll_call_diagnoses(device_statuses: Sequence[DeviceStatus], roll_call_view: RollCallView) -> list[Diagnosis]:
    """Return a diagnosis for each device that gets no work because it proved too little."""
    reasons = [
        (status.id, why_no_work(roll_call_view.rates, status.id, status.device.kind)) for status in device_statuses
    ]
    remedy = "keep `run` running through the next roll call; lower --roll-call-work if its proof was late"
    return [
        bad(f"0x{device_id.hex()[:8]}.. at roll calls", reason, remedy, PROVED_TOO_LITTLE)
        for device_id, reason in reasons
        if reason
    ]


async def _key_funds_diagnosis(live_chain: LiveChain) -> Diagnosis:
    key_grains = await live_chain.key_balance()
    if key_grains < PROVIDER_KEY_LEAST:
        return bad("key's funds", poor_key(key_grains), FUND_KEY)
    return good("key's funds", f"the provider key has {format_amount(key_grains)} oGPU")


async def _funds_diagnosis(live_chain: LiveChain, proofs_hold: int) -> Diagnosis:
    # A check, a vote and a bid lock money of the stash, beside the devices' bonds.
    free_grains = await live_chain.spendable()
    finding_text = f"the stash has {format_amount(free_grains)} oGPU free"
    if free_grains < proofs_hold:
        too_little = f"{finding_text}, and a roll call holds {format_amount(proofs_hold)} oGPU for all devices"
        return bad("funds", too_little, "send money to it", TOO_POOR_TO_PROVE)
    if free_grains:
        return good("funds", f"{finding_text}, enough for checks, votes and bids")
    return weak("funds", f"{finding_text}, too little to check, vote or bid", "send money to it, or unbond a part")


async def _store(live_chain: LiveChain) -> Diagnosis:
    provider = await live_chain.provider(live_chain.stash)
    # The endpoint on the chain, not the daemon's own port, because customers use that one.
    endpoint = None if provider is None else endpoint_of(provider)
    if endpoint is None:
        return bad("blob store", "the chain has no endpoint of this provider", "ogpu-provider register --endpoint ...")
    async with BlobClient(private=live_chain.is_development) as blob_client:
        try:
            await blob_client.get_from(endpoint, NO_BLOB)
        except BlobError as error:
            # A store that lacks this blob is alive: its address has none.
            if error.code == "not_stored":
                return good("blob store", f"{endpoint} answers, as seen from here")
            finding_text = f"{endpoint} serves no blobs, as seen from here: {error}"
            return bad("blob store", finding_text, "check that `run` is running and --blob-host is reachable")
    return bad(
        "blob store", f"{endpoint} serves a blob that was never stored", "check that it is this provider's own daemon"
    )
