"""Images of a few files, made in memory, as the archives that a customer may send, valid or not."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devnet.launcher.folder import DevnetError
from gpu_tasks.provider.execution.containers.spec import ImageArchive

APPLETS = "sh ls cat id echo sleep dd yes mount env head find touch mkdir ln mkfifo seq stat wget ps kill tail chmod"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A file of an image: a folder without content, a link with `link`, a device with `device`."""

    name: str
    content: bytes | None = None
    mode: int = 0o755
    link: str = ""
    device: tuple[bytes, int, int] | None = None
    """The type in `tarfile`, major and minor number."""


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image made of these files."""

    files: tuple[ImageFile, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    def archive(self, *, is_packed: bool = False, layer: bytes | None = None) -> ImageArchive:
        """Return the image as `docker save` writes it.

        `is_packed` compresses its layer. `layer` replaces the files' layer by other bytes.
        """
        plain_layer = layer_of(self.files) if layer is None else layer
        image_config = {
            "architecture": _MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], **self.config},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain_layer).hexdigest()}"]},
        }
        config_bytes = json.dumps(image_config).encode()
        config_sha256 = hashlib.sha256(config_bytes).hexdigest()
        manifest = [{"Config": f"{config_sha256}.json", "RepoTags": list(self.tags), "Layers": ["layer.tar"]}]
        layer_bytes = gzip.compress(plain_layer, 9) if is_packed else plain_layer
        archive_parts = {
            f"{config_sha256}.json": config_bytes,
            "layer.tar": layer_bytes,
            "manifest.json": json.dumps(manifest).encode(),
        }
        return ImageArchive(
            layer_of(ImageFile(part_name, part_bytes, 0o644) for part_name, part_bytes in archive_parts.items()),
            config_sha256,
        )


def layer_of(files: Iterable[ImageFile]) -> bytes:
    """Return a plain tar of the files."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for image_file in files:
            header = tarfile.TarInfo(image_file.name)
            header.mode = image_file.mode
            if image_file.device is not None:
                header.type, header.devmajor, header.devminor = image_file.device
            elif image_file.link:
                header.type, header.linkname = tarfile.SYMTYPE, image_file.link
            elif image_file.content is None:
                header.type = tarfile.DIRTYPE
            else:
                header.size = len(image_file.content)
            archive.addfile(header, io.BytesIO(image_file.content or b""))
    return tar_bytes.getvalue()


def busybox_files() -> tuple[ImageFile, ...]:
    """Return a shell with its applets. Raise DevnetError if busybox is not installed."""
    busybox_path = next(
        (busybox_place for busybox_place in map(Path, ("/bin/busybox", "/usr/bin/busybox")) if busybox_place.exists()),
        None,
    )
    if busybox_path is None:
        raise DevnetError("there is no busybox: apt-get install busybox-static")
    folders = [ImageFile(folder) for folder in ("bin", "etc", "tmp")]
    applet_links = [ImageFile(f"bin/{applet}", mode=0o777, link="busybox") for applet in APPLETS.split()]
    return (*folders, ImageFile("bin/busybox", busybox_path.read_bytes()), *applet_links)
