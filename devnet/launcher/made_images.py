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
        config = {
            "architecture": _MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], **self.config},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain_layer).hexdigest()}"]},
        }
        config_bytes = json.dumps(config).encode()
        config_sha256 = hashlib.sha256(config_bytes).hexdigest()
        manifest = [{"Config": f"{config_sha256}.json", "RepoTags": list(self.tags), "Layers": ["layer.tar"]}]
        layer_bytes = gzip.compress(plain_layer, 9) if is_packed else plain_layer
        parts = {
            f"{config_sha256}.json": config_bytes,
            "layer.tar": layer_bytes,
            "manifest.json": json.dumps(manifest).encode(),
        }
        return ImageArchive(layer_of(ImageFile(name, content, 0o644) for name, content in parts.items()), config_sha256)


def layer_of(files: Iterable[ImageFile]) -> bytes:
    """Return a plain tar of the files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files:
            header = tarfile.TarInfo(file.name)
            header.mode = file.mode
            if file.device is not None:
                header.type, header.devmajor, header.devminor = file.device
            elif file.link:
                header.type, header.linkname = tarfile.SYMTYPE, file.link
            elif file.content is None:
                header.type = tarfile.DIRTYPE
            else:
                header.size = len(file.content)
            archive.addfile(header, io.BytesIO(file.content or b""))
    return buffer.getvalue()


def busybox_files() -> tuple[ImageFile, ...]:
    """Return a shell with its applets. Raise DevnetError if busybox is not installed."""
    busybox = next((path for path in map(Path, ("/bin/busybox", "/usr/bin/busybox")) if path.exists()), None)
    if busybox is None:
        raise DevnetError("there is no busybox: apt-get install busybox-static")
    folders = [ImageFile(folder) for folder in ("bin", "etc", "tmp")]
    applet_links = [ImageFile(f"bin/{applet}", mode=0o777, link="busybox") for applet in APPLETS.split()]
    return (*folders, ImageFile("bin/busybox", busybox.read_bytes()), *applet_links)
