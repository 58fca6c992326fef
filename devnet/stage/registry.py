"""A registry of images on loopback, which engines trust without a certificate, and an image in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import docker
from docker.errors import APIError

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from gpu_tasks.provider.execution.containers.spec import ImageArchive

START_SECONDS, ENGINE_SECONDS = 20.0, 60
IMAGE_TAG = "pushed"


@contextmanager
def running_registry(folder: Path, port: int) -> Iterator[None]:
    """Run a registry during the block. Raise DevnetError if it does not start."""
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "registry.json").write_text(json.dumps(settings))  # JSON is YAML
    with (folder / "registry.log").open("ab") as log_file:
        command = ["docker-registry", "serve", str(folder / "registry.json")]
        registry = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file)
    try:
        # A registry that has ended never listens, so its end also ends the wait.
        processes.until(lambda: processes.listens(port) or registry.poll() is not None, START_SECONDS)
        if not processes.listens(port):
            raise DevnetError(f"the registry does not start: {(folder / 'registry.log').read_text()[-300:]}")
        yield
    finally:
        registry.terminate()
        registry.wait()


def client_of(engine: str) -> docker.APIClient:
    """Return a client of an engine."""
    return docker.APIClient(base_url=engine, version="auto", timeout=ENGINE_SECONDS)


def push_image(engine: str, image: ImageArchive, *repositories: str) -> str:
    """Push an image, and remove it from the engine. Return its registry digest, 64 hexadecimal digits."""
    assert isinstance(image.content, bytes), "made in memory"
    digests: set[str] = set()
    with closing(client_of(engine)) as client:
        try:
            # docker-py returns while the engine still loads. The end of its answer means that the image is there.
            list(client.load_image(iter((image.content,))))
            for repository in repositories:
                client.tag(f"sha256:{image.sha256}", repository, tag=IMAGE_TAG)
                push_messages = list(client.push(repository, tag=IMAGE_TAG, stream=True, decode=True))
                digests |= {
                    str(message["aux"]["Digest"]) for message in push_messages if "Digest" in message.get("aux", {})
                }
            # Without its copy the engine must pull the image, as the engine of any provider does.
            client.remove_image(f"sha256:{image.sha256}", force=True)
        except APIError as error:
            raise DevnetError(f"no image in the registry: {error}") from None
    # An image has the same digest under every name. Two digests mean that the engine changed the image.
    if len(digests) != 1:
        raise DevnetError(f"the registry took no image: {digests}; see registry.log")
    return digests.pop().removeprefix("sha256:")
