"""The policies of eligible providers: how many say that they run a task.

Always: each owner is asked once, side by side, within the limits of `inventories`. An answer is a claim and not
binding. An owner without a readable answer counts neither for nor against the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_tasks.client.inventories import heard_inventories
from gpu_tasks.client.training.stages import counted
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.inventory import CONTAINER_KIND, ClaimedPolicy, ClaimedPrograms, claim_text, image_mark
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.tasks.container_order import PreparedContainer
from gpu_tasks.tasks.container_request import REQUEST, ContainerNetwork, ContainerRequest, RegistryImage
from gpu_tasks.tasks.plan import PlannedDevice, TaskPlan
from gpu_tasks.tasks.quantities import Rate, TimeSpan
from gpu_tasks.tasks.task_kinds import AskedTask, AskedTraining
from wallet.amounts import SYMBOL, format_amount
from wallet.client import ChainClient

MIB = 1 << 20
RUNS_IT = "says that it runs this"
REASONS_SHOWN = 4
"""The most reasons shown for providers that do not run a task."""


@dataclass(frozen=True, slots=True)
class Willingness:
    """The answers of eligible devices' owners about a task."""

    able: int
    """The number of eligible devices; the other fields are about them."""
    willing: int
    unwilling: Mapping[str, int]
    """Counts of devices by their owners' reason against the task."""
    unheard: int
    answers: Mapping[bytes, str]
    """The answers by owner, for people."""

    @property
    def may_bid(self) -> int:
        """The number of devices whose owners run the task, or have not refused it."""
        return self.willing + self.unheard

    def why_too_few(self, slots: int) -> str:
        """Return the reason why too few devices will bid; empty if enough may."""
        if self.able < slots or self.may_bid >= slots:
            return ""
        return f"it takes {counted(slots, 'device')}, and too few run it: of {self.able} eligible devices, {self.said}"

    @property
    def sentence(self) -> str:
        """The eligible devices, and their owners' answers."""
        return f"{self.able} ({self.said})" if self.able else "0"

    @property
    def said(self) -> str:
        """The owners' answers, the willing first."""
        parts = [f"{self.willing} say that they run this"] if self.willing or not self.unheard else []
        shown = list(self.unwilling.items())[:REASONS_SHOWN]
        parts += [f"{count} {'does' if count == 1 else 'do'} not: {why}" for why, count in shown]
        more = sum(self.unwilling.values()) - sum(count for _, count in shown)
        parts += [f"{more} do not for other reasons"] if more else []
        parts += [f"{self.unheard} did not answer"] if self.unheard else []
        return "; ".join(parts)

    def facts(self) -> dict[str, Any]:
        """For programs."""
        return {
            "say_they_run_it": self.willing,
            "say_they_do_not": [{"devices": count, "why": why} for why, count in self.unwilling.items()],
            "did_not_answer": self.unheard,
        }


async def willingness_of(
    client: ChainClient, asked: AskedTask, rules: TaskRules, plan: TaskPlan, slot_ms: int, at: bytes
) -> Willingness:
    """Ask the owners of all eligible devices."""
    able = [each for each in plan.devices if each.hindrance is None]
    owners = list(dict.fromkeys(each.device.owner for each in able))
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        heard = await heard_inventories(client, blobs, owners, at)
    reasons = {owner: why_unfit(policy, asked, plan.terms, rules, slot_ms) for owner, policy in heard.policies.items()}
    return willingness(able, reasons, heard.left_out)


def willingness(able: list[PlannedDevice], reasons: Mapping[bytes, str], left_out: Mapping[bytes, str]) -> Willingness:
    """Count eligible devices: `reasons` are empty if the owner runs the task, `left_out` explains missing answers."""
    owners = [each.device.owner for each in able]
    unwilling = Counter(reasons[owner] for owner in owners if reasons.get(owner))
    answers = {owner: f"not known: it {left_out.get(owner, 'did not answer')}" for owner in owners}
    answers |= {owner: reason or RUNS_IT for owner, reason in reasons.items()}
    return Willingness(
        able=len(able),
        willing=sum(reasons.get(owner) == "" for owner in owners),
        unwilling=dict(unwilling.most_common()),
        unheard=sum(owner not in reasons for owner in owners),
        answers=answers,
    )


def why_unfit(policy: ClaimedPolicy, asked: AskedTask, terms: TaskTerms, rules: TaskRules, slot_ms: int) -> str:
    """Return the reason why a provider with this policy would not bid; empty if its policy allows the task."""
    kind = asked.file.task.workload if isinstance(asked, AskedTraining) else CONTAINER_KIND
    if kind not in policy.kinds:
        return f"no policy for {kind}"
    if isinstance(asked, PreparedContainer):
        request = REQUEST.decode(asked.request)
        rate = Rate(policy.price, TimeSpan(max(1, policy.price_ms), policy.price_blocks))  # no claim divides by 0
        price = rate.price_with_fee(terms.blocks_max, slot_ms, rules.settlement_fee)
        dear = f"it asks for {format_amount(price)} {SYMBOL} at least" if price > terms.price_max else ""
        return claim_text(policy.programs.why_not) or _why_no_program(policy.programs, request, slot_ms) or dear
    is_bound = terms.slots > 1 and terms.time_value > 0
    return "no policy for gangs whose blocks have a value" if is_bound and not policy.gangs else ""


def _why_no_program(means: ClaimedPrograms, request: ContainerRequest, slot_ms: int) -> str:
    """Return the reason why a provider does not run this program; empty if it does."""
    limits, keep = request.limits, request.keep_blocks * slot_ms // 1_000
    reasons = (
        (limits.memory_bytes > means.memory_bytes, f"{_size(means.memory_bytes)} of memory at most"),
        (limits.workspace_bytes > means.disk_bytes, f"{_size(means.disk_bytes)} of disk at most"),
        (limits.cpu_thousandths > means.cpu_thousandths, f"{means.cpu_thousandths / 1_000:g} cores at most"),
        (limits.processes > means.processes, f"{means.processes:,} processes at most"),
        (request.network is ContainerNetwork.OUTBOUND and not means.outbound, "no network for containers"),
        (not _has_image(means, request), "another list of images"),
        (keep > means.keep_seconds, f"{means.keep_seconds:,} s of a kept workspace at most"),
    )
    return next((why for is_so, why in reasons if is_so), "")


def _has_image(means: ClaimedPrograms, request: ContainerRequest) -> bool:
    image = request.image
    digest = image.sha256.hex()
    if isinstance(image, RegistryImage):
        names = (image.repository, f"{image.repository}@sha256:{digest}")
        return any(image_mark(name) in means.images for name in names)
    return means.any_archive or image_mark(f"sha256:{digest}") in means.images


def _size(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size // MIB} MiB"
