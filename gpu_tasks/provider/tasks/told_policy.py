"""The published part of a provider's policy, within the size limit of an answer."""

from __future__ import annotations

from gpu_tasks.data.inventory import IMAGES_MAX, KINDS_MAX, ClaimedPolicy, ClaimedPrograms, claim_text, image_mark
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy
from runtime.encoding.types import U64_MAX

U32_MAX = (1 << 32) - 1


def claimed_policy(policy: BidPolicy, means: ProgramMeans, why_not: str) -> ClaimedPolicy:
    """Return the published policy; `means` and `why_not` are the daemon's container limits since its start."""
    price = policy.least_price
    return ClaimedPolicy(
        kinds=tuple(dict.fromkeys(map(claim_text, policy.kinds)))[:KINDS_MAX],
        gangs=policy.gangs,
        price=price.grains,
        price_ms=price.span.milliseconds,
        price_blocks=price.span.blocks,
        programs=ClaimedPrograms(
            why_not=claim_text(why_not),
            images=tuple(map(image_mark, means.images))[:IMAGES_MAX],
            any_archive=means.any_archive,
            outbound=means.outbound,
            cpu_thousandths=min(means.cpu_thousandths, U32_MAX),
            memory_bytes=min(means.memory_bytes, U64_MAX),
            disk_bytes=min(means.disk_bytes, U64_MAX),
            processes=min(means.processes, U32_MAX),
            keep_seconds=min(means.keep_seconds, U32_MAX),
        ),
    )
