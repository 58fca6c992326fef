"""A customer's request for a container: the bytes that are sealed as the input of a metered task.

Invariant: every bidder can read it, so it names secrets but never contains one. Each part has a limit. The same request
gives the same bytes on every machine.
"""

from enum import IntEnum
from typing import Annotated

from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U8, U16, U32, U64, Bounded, Tagged, codec, named, struct, variant
from runtime.encoding.types import BlockNumber, Hash

CONTAINER_WORKLOAD = blake2_256(b"ogpu/container/1")
"""The workload of a task on the chain that runs in a container."""
CONTAINER_VERSION = 1
WORD_BYTES_MAX = 4_096
WORDS_MAX = 256
REPOSITORY_BYTES_MAX = 200
VARIABLES_MAX = 256
NAME_BYTES_MAX = 128
SECRETS_MAX = 64
INPUT_FILES_MAX = 64
INPUT_BYTES_MAX = 192 * 1024
"""The limit of one file, and of all together, because a sealed request has 256 KiB. Larger data enters by the tunnel or
the network."""
PORTS_MAX = 16
IMAGE_PARTS_MAX = 64
"""The most parts of an image that is sent as blobs."""
IMAGE_PART_BYTES = 1 << 20
"""The bytes of each part except the last: the capacity of a blob."""
IMAGE_ARCHIVE_BYTES_MAX = 256 << 20
"""The most bytes of an archive before compression. Its parts limit the compressed size."""
GPUS_MAX = 16
LOADER_PREFIXES = ("LD_", "NVIDIA_", "DYLD_", "GLIBC_", "GCONV_", "MALLOC_", "CUDA_INJECTION", "OCI_", "DOCKER_")
LOADER_NAMES = frozenset(
    {"BASH_ENV", "ENV", "LOCPATH", "NLSPATH", "RES_OPTIONS", "HOSTALIASES", "TZDIR", "PROMPT_COMMAND"}
)
"""Variables with an effect before the program runs, on a loader, a shell or the hooks of a GPU toolkit. The hook of
CVE-2025-23266 inherited LD_PRELOAD from the image, outside of the container."""

Name = Annotated[str, Bounded(NAME_BYTES_MAX)]
CommandText = Annotated[str, Bounded(WORD_BYTES_MAX)]


@named("ogpu::ContainerNetwork")
class ContainerNetwork(IntEnum):
    """The network that a container may reach."""

    NONE = 0
    OUTBOUND = 1
    """Public addresses, if the provider's policy allows them too."""


@variant(0, name="ByDigest")
class RegistryImage:
    """An image of a registry, by its digest, because a tag can change."""

    repository: Annotated[str, Bounded(REPOSITORY_BYTES_MAX)]
    sha256: Hash

    def __str__(self) -> str:
        """Return the image as a task file writes it."""
        return f"{self.repository}@sha256:{self.sha256.hex()}"


@struct
class ImagePart:
    """A piece of an archive, as a sealed blob."""

    blob: Hash
    """The blob's address."""
    root: Hash
    """blake2-256 of its content."""


@variant(1, name="Archive")
class ArchivedImage:
    """An image as `docker save` writes it, compressed by gzip and cut into consecutive pieces."""

    sha256: Hash
    """The image's id: the hash of its configuration."""
    size: U32
    """Bytes of the archive before compression."""
    parts: Annotated[tuple[ImagePart, ...], Bounded(IMAGE_PARTS_MAX)]


AskedImage = Annotated[RegistryImage | ArchivedImage, Tagged("ogpu::ContainerImage")]


@struct
class AskedLimits:
    """The limits of the program. A provider with a policy below them does not bid."""

    cpu_thousandths: U32 = 1_000
    """Thousandths of a core."""
    memory_bytes: U64 = 512 * 1024 * 1024
    processes: U32 = 128
    workspace_bytes: U64 = 64 * 1024 * 1024
    output_bytes: U64 = 1024 * 1024
    """Bytes of /out, which is sealed to the customer as a whole."""
    log_bytes: U32 = 1024 * 1024
    """Bytes of the log. The last ones are kept."""


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
    """A program, its inputs, and its limits."""

    version: U8
    image: AskedImage
    command: Annotated[tuple[CommandText, ...], Bounded(WORDS_MAX)]
    """Arguments of the image's entry point. Empty: the image's own."""
    environment: Annotated[tuple[EnvironmentVariable, ...], Bounded(VARIABLES_MAX)]
    """By name, ascending, without duplicates."""
    secrets: Annotated[tuple[Name, ...], Bounded(SECRETS_MAX)]
    """Names, ascending. The customer gives the values only to the winner, before the program begins."""
    inputs: Annotated[tuple[RequestFile, ...], Bounded(INPUT_FILES_MAX)]
    """By name, ascending, without duplicates."""
    ports: Annotated[tuple[U16, ...], Bounded(PORTS_MAX)]
    """Ports that the customer may reach through the tunnel, ascending."""
    network: ContainerNetwork
    limits: AskedLimits
    gpus: U8
    """The number of GPUs for the program: 0 or 1, because a device is one GPU."""
    is_lease: bool
    """True if the task lasts until its time is up, even if its program ends earlier. Otherwise it ends with its
    program."""
    keep_blocks: BlockNumber
    """Blocks for which a lease's workspace is kept after its end."""


REQUEST = codec(ContainerRequest)


def is_loader_variable(name: str) -> bool:
    """Return True if a variable makes other code run before, or instead of, the program."""
    return name.upper().startswith(LOADER_PREFIXES) or name.upper() in LOADER_NAMES
