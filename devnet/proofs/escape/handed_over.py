"""Attempts by what a customer hands over, outputs and images, and what a provider that is killed leaves behind."""

from __future__ import annotations

import asyncio
import hashlib
import io
import struct
import subprocess
import sys
import time
from dataclasses import replace

import docker

from devnet.launcher import processes
from devnet.launcher.made_images import ImageFile, MadeImage, busybox_files, layer_of
from devnet.proofs.escape.attempt import EscapeChecks, attempt
from devnet.proofs.escape.scene import (
    LIMITS,
    OTHER_REPOSITORY,
    POLICY,
    REPOSITORY,
    EscapeScene,
    pid_of,
    resident_bytes,
    used_disk,
)
from gpu_tasks.provider.execution.containers.engine import open_engine
from gpu_tasks.provider.execution.containers.programs import run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import MIB, ImageArchive, ImageByDigest

_OUTPUTS = {
    "a link to a file of the machine": "ln -s /etc/shadow /out/x",
    "a link to a folder": "mkdir /out/d; ln -s / /out/d/x",
    "a hard link": "echo a >/out/a; ln /out/a /out/b",
    "a pipe": "mkfifo /out/x",
    "a file with a hole of a terabyte": "dd if=/dev/null of=/out/x bs=1 seek=1000000000000",
    "a hundred and one files": "for i in $(seq 101); do touch /out/$i; done",
    "folders in folders": "p=/out; for i in $(seq 20); do p=$p/d; mkdir $p; done",
    "a name that a terminal takes for a command": "touch \"/out/$(printf '\\033]0;x')\"",
    "a name with a line end": 'touch "/out/a\nb"',
    "a name that is not UTF-8": "touch \"/out/$(printf '\\377')\"",
    "the folder itself as a link": "cd /; rm -r /out || ln -s / /out/../x || ln -s /secrets /out/o",
}


@attempt
async def hand_over_bad_outputs(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Leave links, pipes, holes, too many files, deep folders and bad names in /out."""
    for what, script in _OUTPUTS.items():
        disk, began = used_disk(scene.folder), time.monotonic()
        async with scene.container("sh", "-c", script) as container:
            ran = await scene.ended(container)
            sink = io.BytesIO()
            try:
                archive = await scene.engine.outputs(container, sink)
            except ContainerRefusedError as refusal:
                said = str(refusal)
            else:
                said = f"TAKEN {archive.files} files: {ran.text[:100]}"
        checks.that(not said.startswith("TAKEN"), what, said)
        checks.that(sink.tell() < LIMITS.output_bytes + MIB and time.monotonic() - began < 15, f"{what}: soon refused")
        checks.that(used_disk(scene.folder) - disk < 8 * MIB, f"{what}: no disk taken")
    script = "mkdir /out/d; echo b >/out/d/b; echo a >/out/a; chmod 4777 /out/a"
    hashes = []
    for text in (script, "echo a >/out/a; mkdir /out/d; sleep 1; echo b >/out/d/b; chmod 755 /out/a"):
        async with scene.container("sh", "-c", text) as container:
            await scene.engine.wait(container)
            hashes.append((await scene.engine.outputs(container, io.BytesIO())).blake2_256)
    checks.that(hashes[0] == hashes[1], "the same files have the same hash")


@attempt
async def hand_over_bad_images(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Images whose configuration reaches out of the container, that unpack to too much, or take over others' names."""
    files = busybox_files()
    good = MadeImage(files).archive()
    hole = struct.pack(">4xQ", 1 << 40)  # GNU's binary size: a terabyte, of which nothing is there
    bad = {
        "LD_PRELOAD": MadeImage(files, {"Env": ["LD_PRELOAD=/evil.so"]}).archive(),
        "NVIDIA_VISIBLE_DEVICES": MadeImage(files, {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}).archive(),
        "volumes": MadeImage(files, {"Volumes": {"/data": {}}}).archive(),
        "a health check": MadeImage(files, {"Healthcheck": {"Test": ["CMD", "yes"]}}).archive(),
        "triggers": MadeImage(files, {"OnBuild": ["RUN id"]}).archive(),
        "our labels": MadeImage(files, {"Labels": {"org.ogpu.owner": "x"}}).archive(),
        "another id": replace(good, sha256="0" * 64),
        "a packed layer": MadeImage(files).archive(is_packed=True),
        "a gigabyte of zeros, packed": MadeImage(files).archive(is_packed=True, layer=bytes(64 * MIB)),
        "a layer that is none": MadeImage(files).archive(layer=b"\xff" * 4096),
        "a layer with a hole": MadeImage(files).archive(layer=_with_size(layer_of([ImageFile("x", b"")]), hole)),
        "more bytes than the limit": MadeImage((*files, ImageFile("x", bytes(24 * MIB)))).archive(),
        "an archive that is none": ImageArchive(b"no tar" * 1_000, "1" * 64),
        "half an archive": replace(good, content=_half(good)),
    }
    memory, engine_memory = resident_bytes(), resident_bytes(pid_of("dockerd"))
    for what, image in bad.items():
        try:
            await scene.run("id", image=image, limits={"image_bytes": 16 * MIB})
        except ContainerRefusedError as refusal:
            checks.that(True, what, refusal)
        else:
            checks.that(False, what, "it RAN")
    grown = resident_bytes() - memory, resident_bytes(pid_of("dockerd")) - engine_memory
    checks.that(max(grown) < 160 * MIB, "memory", grown)
    tagged = MadeImage((*files, ImageFile("tagged", b"")), tags=("postgres:latest",)).archive()
    ran = await scene.run("id", image=tagged)
    names = await scene.ask_engine(lambda client: client.images(name="postgres"))
    checks.that(ran.end.exit_code == 0 and not names, "a tag of the archive names nothing here", names)


def _with_size(layer: bytes, size: bytes) -> bytes:
    """The first header with another size, its sum set right."""
    header = bytearray(layer[:512])
    header[124:136] = b"\x80" + size[1:]
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + layer[512:]


def _half(image: ImageArchive) -> bytes:
    assert isinstance(image.content, bytes)
    return image.content[: len(image.content) // 2]


@attempt
async def outlive_the_provider(scene: EscapeScene, checks: EscapeChecks) -> None:
    """The provider is killed with kill -9 while containers run; the next one finds everything, and only that."""
    folder = scene.folder / "victim"
    environment = processes.source_path()
    command = [sys.executable, "-m", "devnet.proofs.escape.victim", scene.address, str(folder)]
    provider = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
    async with scene.container("sleep", "60") as other:
        assert provider.stdout is not None
        line = await asyncio.wait_for(provider.stdout.readline(), 60)
        provider.kill()
        await provider.wait()
        checks.that(line == b"standing\n", "it had containers")
        before = await _traces(scene, folder.name)
        checks.that(len(before) >= 12, "they are still there", len(before))
        async with asyncio.timeout(60):
            next_provider = await open_engine(folder, POLICY, scene.address)
        await next_provider.close()
        checks.that(next_provider.leftovers.total >= 12, "removed", next_provider.leftovers)
        after = await _traces(scene, folder.name)
        checks.that(not after, "nothing is left", after)
        checks.that(not other.end.done(), "another provider's container runs on")


async def _traces(scene: EscapeScene, folder: str) -> list[str]:
    """All that a provider has: in the engine, of rules, loop devices and files."""
    owner = (scene.folder / folder / "container-owner").read_text().strip()

    def named(client: docker.APIClient) -> list[str]:
        found = [str(thing["Names"]) for thing in client.containers(all=True)]
        found += [str(thing["Name"]) for thing in client.volumes().get("Volumes") or []]
        return found + [str(thing["Name"]) for thing in client.networks()]

    names = [name for name in await scene.ask_engine(named) if owner in name]
    rules = [line for line in (await run_program("iptables", "-S")).splitlines() if owner in line]
    loops = [line for line in (await run_program("losetup", "--all")).splitlines() if owner in line]
    return [*names, *rules, *loops, *map(str, (scene.folder / folder / "workspaces").glob("*"))]


@attempt
async def swap_the_image(scene: EscapeScene, checks: EscapeChecks) -> None:
    """A registry that holds something else under a name than its digest says; a name that is not on the list."""
    digest = ImageByDigest(REPOSITORY, scene.registry_digest)
    other = ImageByDigest(OTHER_REPOSITORY, scene.registry_digest)
    ran = await scene.run("echo", "by digest", image=digest)
    checks.that(ran.text == "by digest", "the right one runs", ran.text)
    wrong = replace(digest, sha256=hashlib.sha256(b"no such image").hexdigest())
    for what, image in {"another digest": wrong, "another repository": other}.items():
        try:
            await scene.run("id", image=image)
        except ContainerError as refusal:
            checks.that(True, what, refusal)
        else:
            checks.that(False, what, "it RAN")
