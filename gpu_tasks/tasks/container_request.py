"""What a customer asks of a container: the bytes that are sealed as the input of a metered task.

Always: every bidder can read it, so no secret is in it, only the names of secrets; each part has a limit; the same
request gives the same bytes on every machine.
"""

from enum import IntEnum
from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, U16, U32, U64, Bounded, Tagged, codec, named, struct, variant
from runtime.encoding.types import BlockNumber, Hash

CONTAINER_WORKLOAD = blake2_256(b"ogpu/container/1")
"""What a task on the chain names as its workload when it runs in a container."""
CONTAINER_VERSION = 1
WORD_BYTES_MAX = 4_096
WORDS_MAX = 256
REPOSITORY_BYTES_MAX = 200
VARIABLES_MAX = 256
NAME_BYTES_MAX = 128
SECRETS_MAX = 64
INPUT_FILES_MAX = 64
INPUT_BYTES_MAX = 192 * 1024
"""Of one file, and of all together: a sealed request has 256 KiB. More goes in by the tunnel, or by the network."""
PORTS_MAX = 16
IMAGE_PARTS_MAX = 64
"""Of an image that is sent as blobs."""
IMAGE_PART_BYTES = 1 << 20
"""Of each but the last: as much as a blob holds."""
IMAGE_ARCHIVE_BYTES_MAX = 256 << 20
"""Of an archive, before it is compressed; compressed it has as much as its parts hold."""
GPUS_MAX = 16
LOADER_PREFIXES = ("LD_", "NVIDIA_", "DYLD_", "GLIBC_", "GCONV_", "MALLOC_", "CUDA_INJECTION", "OCI_", "DOCKER_")
LOADER_NAMES = frozenset(
    {"BASH_ENV", "ENV", "LOCPATH", "NLSPATH", "RES_OPTIONS", "HOSTALIASES", "TZDIR", "PROMPT_COMMAND"}
)
"""Variables that a loader, a shell or the hooks of a GPU toolkit act on before the program runs: the hook of
CVE-2025-23266 inherited LD_PRELOAD from the image, outside of the container."""

Name = Annotated[str, Bounded(NAME_BYTES_MAX)]
CommandText = Annotated[str, Bounded(WORD_BYTES_MAX)]


@named("ogpu::ContainerNetwork")
class ContainerNetwork(IntEnum):
    """What a container may reach."""

    NONE = 0
    OUTBOUND = 1
    """Public addresses, where the provider's policy allows it too."""


@variant(0, name="ByDigest")
class RegistryImage:
    """An image that a registry has, by its digest: a tag means something else tomorrow."""

    repository: Annotated[str, Bounded(REPOSITORY_BYTES_MAX)]
    sha256: Hash

    def __str__(self) -> str:
        """As a task file says it."""
        return f"{self.repository}@sha256:{self.sha256.hex()}"


@struct
class ImagePart:
    """A piece of an archive, as a sealed blob."""

    blob: Hash
    """Its address."""
    root: Hash
    """blake2-256 of its content."""


@variant(1, name="Archive")
class ArchivedImage:
    """An image as `docker save` writes it: compressed (gzip), in pieces that stand one behind the other."""

    sha256: Hash
    """Its id: of its configuration."""
    size: U32
    """Bytes of the archive, before it was compressed."""
    parts: Annotated[tuple[ImagePart, ...], Bounded(IMAGE_PARTS_MAX)]


AskedImage = Annotated[RegistryImage | ArchivedImage, Tagged("ogpu::ContainerImage")]


@struct
class AskedLimits:
    """What the program may use; a provider whose policy gives less does not bid."""

    cpu_thousandths: U32 = 1_000
    """Of a core."""
    memory_bytes: U64 = 512 * 1024 * 1024
    processes: U32 = 128
    workspace_bytes: U64 = 64 * 1024 * 1024
    output_bytes: U64 = 1024 * 1024
    """Of /out, which is sealed to the customer as a whole."""
    log_bytes: U32 = 1024 * 1024
    """Kept, the last ones."""


@struct
class EnvironmentVariable:
    """A variable of the program's environment."""

    name: Name
    value: CommandText


@struct
class RequestFile:
    """A file of /in."""

    name: Name
    content: Annotated[bytes, Bounded(INPUT_BYTES_MAX)]


@struct
class ContainerRequest:
    """A program, what it is given, and what it may use."""

    version: U8
    image: AskedImage
    command: Annotated[tuple[CommandText, ...], Bounded(WORDS_MAX)]
    """Arguments of the image's entry point; none: the image's own."""
    environment: Annotated[tuple[EnvironmentVariable, ...], Bounded(VARIABLES_MAX)]
    """By name, ascending; none twice."""
    secrets: Annotated[tuple[Name, ...], Bounded(SECRETS_MAX)]
    """Names, ascending: the customer hands the values to the winner alone, before the program begins."""
    inputs: Annotated[tuple[RequestFile, ...], Bounded(INPUT_FILES_MAX)]
    """By name, ascending; none twice."""
    ports: Annotated[tuple[U16, ...], Bounded(PORTS_MAX)]
    """That the customer may reach through the tunnel, ascending."""
    network: ContainerNetwork
    limits: AskedLimits
    gpus: U8
    """How many of the device's GPUs go in: 0 or 1 today, as a device is one GPU."""
    is_lease: bool
    """Whether it ends when its time is up, and its program may end before; else it ends with its program."""
    keep_blocks: BlockNumber
    """For so long the workspace of a lease is kept after its end."""


REQUEST = codec(ContainerRequest)


def is_loader_variable(name: str) -> bool:
    """Tell whether a variable makes other code run before, or instead of, the program."""
    return name.upper().startswith(LOADER_PREFIXES) or name.upper() in LOADER_NAMES
