"""A container engine, a registry, and an image in it, all of them this proof's own.

Always: they end with the block; nothing of the machine's own engine is touched.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError

from devnet.launcher.dockerd import own_engine
from devnet.launcher.errors import DevnetError
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.made_images import MadeImage, busybox_files

NAME, TAG = "tool", "latest"
VERSION = "auto"
START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Shipyard:
    """Where the engine listens, and what the registry has."""

    engine: str
    repository: str
    image: str
    """The repository with the digest."""


@contextmanager
def shipyard(folder: Path) -> Iterator[Shipyard]:
    """An engine and a registry with an image of busybox; DevnetError where something is not installed."""
    if shutil.which("docker-registry") is None:
        raise DevnetError("there is no registry: apt-get install docker-registry")
    port = one_free_port()
    with own_engine(folder / "d") as engine, _registry(folder, port):
        repository = f"localhost:{port}/{NAME}"
        yield Shipyard(engine, repository, _pushed(engine, repository))


@contextmanager
def _registry(folder: Path, port: int) -> Iterator[None]:
    settings = folder / "registry.yml"
    settings.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder / 'registry'}}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}}}\n"
    )
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(  # this machine's own program
            ["docker-registry", "serve", str(settings)],  # noqa: S607
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _pushed(engine: str, repository: str) -> str:
    """The image with its digest, which the engine has not kept."""
    client = docker.APIClient(engine, VERSION, int(START_SECONDS))
    archive = MadeImage(busybox_files()).archive()
    assert isinstance(archive.content, bytes), "made in memory"
    try:
        list(client.load_image(iter((archive.content,))))
        client.tag(archive.sha256, repository, TAG)
        said = list(client.push(repository, TAG, stream=True, decode=True))
        client.remove_image(archive.sha256, force=True)
    except APIError as error:
        raise DevnetError(f"no image in the registry: {error}") from None
    finally:
        client.close()
    digest = next((line["aux"]["Digest"] for line in said if "Digest" in line.get("aux", {})), None)
    if digest is None:
        raise DevnetError("the registry took no image: see registry.log")
    return f"{repository}@{digest}"
