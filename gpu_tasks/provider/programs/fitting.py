"""A request as a container of this machine, within what the provider lets it use.

Always: a limit that a customer asks for is never raised, and one that the provider has is never passed over; what does
not fit is refused before anything is bid.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.provider.execution.containers.image_rules import check_allowed
from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import (
    MIB,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
    ImageByDigest,
    NetworkAccess,
    check_spec,
)
from gpu_tasks.provider.programs.refusals import UnfitProgramError
from gpu_tasks.tasks.container_request import ContainerNetwork, ContainerRequest, RegistryImage

SLACK_SECONDS = 120
"""Beyond the time that was bought: blocks may come slowly, and the chain ends it, not this limit."""
OUTPUT_BYTES_MAX = MIB
"""What is sealed is one blob, the archive's headers included."""
SLOWEST_BLOCK_SLOTS = 10
"""A chain on which nobody has anything to say has a block in every tenth slot."""
_NETWORKS = {ContainerNetwork.NONE: NetworkAccess.NONE, ContainerNetwork.OUTBOUND: NetworkAccess.OUTBOUND}


def seconds_of(blocks: int, slot_ms: int) -> int:
    """How long a container may run that was bought for so many blocks."""
    return blocks * slot_ms * SLOWEST_BLOCK_SLOTS // 1_000 + SLACK_SECONDS


def spec_of(
    request: ContainerRequest, policy: ContainerPolicy, container_id: str, gpus: Sequence[str], seconds: int
) -> ContainerSpec:
    """The container; UnfitProgramError where this provider runs no such thing."""
    if not isinstance(request.image, RegistryImage):
        raise UnfitProgramError("its image comes as an archive, and this provider takes those of registries")
    if request.gpus > len(gpus):
        raise UnfitProgramError(f"it wants {request.gpus} GPUs, and the device has {len(gpus)}")
    asked = request.limits
    if asked.output_bytes > OUTPUT_BYTES_MAX:
        raise UnfitProgramError(f"it wants {asked.output_bytes} bytes of /out, and a blob holds {OUTPUT_BYTES_MAX}")
    spec = ContainerSpec(
        container_id=container_id,
        image=ImageByDigest(request.image.repository, request.image.sha256.hex()),
        command=request.command,
        environment={each.name: each.value for each in request.environment},
        inputs={each.name: each.content for each in request.inputs},
        secrets=dict.fromkeys(request.secrets, b""),  # their values come later, and never lie on a disk
        gpus=tuple(gpus[: request.gpus]),
        network=_NETWORKS[request.network],
        limits=ContainerLimits(
            cpu_thousandths=asked.cpu_thousandths,
            memory_bytes=asked.memory_bytes,
            processes=asked.processes,
            wall_seconds=seconds,
            log_bytes=asked.log_bytes,
            workspace_bytes=asked.workspace_bytes,
            output_bytes=OUTPUT_BYTES_MAX,
        ),
    )
    try:
        check_spec(spec, policy)
        check_allowed(spec.image, policy)
    except ContainerRefusedError as error:
        raise UnfitProgramError(str(error)) from None
    return spec
