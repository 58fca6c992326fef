"""A request as a container of this machine, within what the provider lets it use.

Always: a limit that a customer asks for is never raised, and one that the provider has is never passed over; what does
not fit is refused before anything is bid.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpu_tasks.provider.execution.containers.image_rules import check_allowed
from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import (
    MIB,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
    ImageArchive,
    ImageByDigest,
    NetworkAccess,
    check_spec,
)
from gpu_tasks.provider.programs.image_parts import check_asked
from gpu_tasks.provider.programs.refusals import UnfitProgramError
from gpu_tasks.tasks.container_request import AskedImage, ContainerNetwork, ContainerRequest, RegistryImage

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
    request: ContainerRequest,
    policy: ContainerPolicy,
    container_id: str,
    gpus: Sequence[str],
    seconds: int,
    archive: Path,
) -> ContainerSpec:
    """The container; UnfitProgramError where this provider runs no such thing.

    `archive` is where its image lies when it is loaded, if it comes as one.
    """
    if request.gpus > len(gpus):
        raise UnfitProgramError(f"it wants {request.gpus} GPUs, and the device has {len(gpus)}")
    asked = request.limits
    if asked.output_bytes > OUTPUT_BYTES_MAX:
        raise UnfitProgramError(f"it wants {asked.output_bytes} bytes of /out, and a blob holds {OUTPUT_BYTES_MAX}")
    spec = ContainerSpec(
        container_id=container_id,
        image=_image(request.image, archive),
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


def _image(image: AskedImage, archive: Path) -> ImageByDigest | ImageArchive:
    if isinstance(image, RegistryImage):
        return ImageByDigest(image.repository, image.sha256.hex())
    check_asked(image)
    return ImageArchive(archive, image.sha256.hex())
