"""Every attempt to escape from a container, in order: the limits, the kernel, neighbours, outputs and images."""

from __future__ import annotations

import asyncio
import hashlib
import io
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import docker

from devnet.launcher import processes
from devnet.launcher.made_images import ImageFile, MadeImage, busybox_files, layer_of
from devnet.proofs.escape import ground
from devnet.proofs.escape.limit_attempts import LIMIT_ATTEMPTS
from devnet.proofs.escape.scene import (
    CONTAINER_LIMITS,
    CONTAINER_POLICY,
    OTHER_REPOSITORY,
    REPOSITORY,
    EscapeChecks,
    EscapeRun,
    EscapeScene,
    attempts_in,
    escape_attempt,
    first_pid_of,
    resident_bytes,
    used_disk_bytes,
)
from gpu_tasks.provider.execution.containers.engine import open_engine
from gpu_tasks.provider.execution.containers.programs import run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import MIB, ImageArchive, ImageByDigest, NetworkAccess

_SYSTEM_SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/fs/file-max",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/module/printk/parameters/time",
    "/sys/power/state",
    "/sys/class/net/lo/mtu",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/pids/pids.max",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/cgroup.procs",
    "/dev/kmsg",
)
# A pipe in core_pattern and the program in modprobe run as root on the host, outside all containers.
_WATCHED_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/fs/file-max")


def _require_refusals(
    run: EscapeRun, checks: EscapeChecks, refused_min: int, allowed_actions: tuple[str, ...] = ()
) -> None:
    actions_done = [action for action in run.done() if action not in allowed_actions]
    checks.that(
        not actions_done and run.refused() >= refused_min, f"{run.refused()} refused", actions_done or run.text[-200:]
    )


@escape_attempt
async def mount_something(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Mount, remount the root, unmount the covers of /proc, make namespaces, change the root."""
    _require_refusals(await scene.run("probe", "mounts"), checks, 14)
    run = await scene.shell("mount -o remount,rw /; touch /etc/x && echo BAD; mount -t proc p /tmp && echo BAD; exit 0")
    checks.that("BAD" not in run.text, "the root stays as it is", run.text)


@escape_attempt
async def change_the_system(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Write to /proc/sysrq-trigger, /proc/sys, /sys and the container's own control groups."""
    settings_before = _watched_settings()
    script = "; ".join(
        f"if echo 1 2>/dev/null >{setting_path}; then echo WROTE {setting_path}; else echo no; fi"
        for setting_path in _SYSTEM_SETTINGS
    )
    run = await scene.shell(script)
    written_lines = [line for line in run.text.splitlines() if line.startswith("WROTE")]
    checks.that(
        not written_lines and run.text.count("no") == len(_SYSTEM_SETTINGS),
        f"{len(_SYSTEM_SETTINGS)} refused",
        written_lines or run.text,
    )
    run = await scene.shell("echo -1000 >/proc/self/oom_score_adj && echo SPARED; exit 0")
    checks.that("SPARED" not in run.text, "it is not spared when memory runs out", run.text)
    checks.that(settings_before == _watched_settings(), "the machine's settings are as before")


def _watched_settings() -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in _WATCHED_SETTINGS if Path(path).exists()}


@escape_attempt
async def become_root(scene: EscapeScene, checks: EscapeChecks) -> None:
    # Without no_new_privs, a setuid file of the image would give root inside the container.
    """Run a setuid root program of the image, and ask for user 0."""
    for probe_program in ("probe", "probe-as-root"):
        run = await scene.run(probe_program, "users")
        _require_refusals(run, checks, 4)
        checks.that("user 65534 65534" in run.text, f"{probe_program} stays nobody", run.text)
    # Seccomp 2 is the filter mode, and NoNewPrivs 1 disarms setuid files (proc_pid_status(5)).
    process_status = await scene.shell("cat /proc/self/status")
    status_lines = dict(line.split(":\t", 1) for line in process_status.text.splitlines() if ":\t" in line)
    checks.that(
        all(int(status_lines.get(capability, "1"), 16) == 0 for capability in ("CapPrm", "CapEff", "CapBnd")),
        "no capabilities",
    )
    checks.that(
        status_lines.get("NoNewPrivs") == "1" and status_lines.get("Seccomp") == "2", "no new ones; calls are filtered"
    )


@escape_attempt
async def reach_other_processes(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Trace, kill and read processes of the machine and of another container."""
    async with scene.container("sleep", "15") as other_container:
        run = await scene.run("probe", "others")
        checks.that("others 0" in run.text, "it sees none", run.text)
        checks.that(
            not [action for action in run.done() if action != "kill everybody"], "nothing was opened", run.done()
        )
        run = await scene.shell("kill -9 -1; for i in $(seq 1 5000); do kill -9 $i 2>/dev/null; done; echo over")
        checks.that(not other_container.end.done(), "the other one lives")


@escape_attempt
async def make_devices(scene: EscapeScene, checks: EscapeChecks) -> None:
    # A program that opens a disk's device node reads all files of the machine, even those that no mount shows.
    """Make device nodes of disks and memory. Open the machine's nodes and those of the image."""
    _require_refusals(await scene.run("probe", "devices"), checks, 20)


@escape_attempt
async def open_raw_sockets(scene: EscapeScene, checks: EscapeChecks) -> None:
    # Raw sockets forge sources and were a way into the kernel (CVE-2020-14386). Docker grants them by default.
    """Open sockets that write raw packets, with and without a network."""
    for network in NetworkAccess:
        _require_refusals(await scene.run("probe", "sockets", network=network), checks, 4)


@escape_attempt
async def call_the_kernel(scene: EscapeScene, checks: EscapeChecks) -> None:
    # Opening files by handle read the host's files from Docker containers in 2014 (the Shocker exploit).
    """Call the kernel to load modules, trace, reboot, open files by handle, set clocks and names."""
    _require_refusals(await scene.run("probe", "calls"), checks, 19)


_WORLD_PLACE = (ground.WORLD_PUBLIC, str(ground.WORLD_PORT))
_FIND_SECONDS = 30


@escape_attempt
async def use_the_network_without_leave(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to other hosts from a container without a network."""
    reach_arguments = (
        *_WORLD_PLACE,
        ground.METADATA_ADDRESS,
        "80",
        ground.MACHINE_PUBLIC,
        str(ground.MACHINE_PORT),
        "127.0.0.1",
        "8098",
    )
    run = await scene.run("probe", "reach", *reach_arguments)
    checks.that(not run.done() and run.refused() == 4, "no address is reached", run.text)
    run = await scene.shell("ls /sys/class/net; cat /proc/net/route /proc/net/if_inet6 | wc -l; cat /proc/net/dev")
    checks.that(run.text.splitlines()[:1] == ["lo"] and "eth" not in run.text, "it has no interface", run.text[:200])


@escape_attempt
async def ask_the_cloud(scene: EscapeScene, checks: EscapeChecks) -> None:
    # Credentials of a machine's role were stolen through this address (Capital One, 2019).
    """Connect to 169.254.169.254, where a cloud serves a machine's keys, from a container with a network."""
    run = await _reached_places(scene, *_WORLD_PLACE, ground.METADATA_ADDRESS, "80", "169.254.170.2", "80")
    checks.that(run == [":".join(_WORLD_PLACE)], "only the world is reached", run)


@escape_attempt
async def reach_the_machine(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to the machine's loopback ports, addresses and private networks from a container with a network."""
    # The gateway of a bridge is the machine itself.
    gateway_addresses = [f"10.213.{number}.1" for number in range(3)]
    machine_places = [
        word for address in (*gateway_addresses, ground.MACHINE_PUBLIC) for word in (address, str(ground.MACHINE_PORT))
    ]
    # Programs bound to loopback often trust every caller.
    loopback_places = ["127.0.0.1", str(ground.LOOPBACK_PORT), "127.0.0.1", str(ground.MACHINE_PORT)]
    run = await _reached_places(scene, *_WORLD_PLACE, *machine_places, *loopback_places, ground.PRIVATE_ADDRESS, "80")
    checks.that(run == [":".join(_WORLD_PLACE)], "only the world is reached", run)


@escape_attempt
async def reach_another_container(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Connect to a container of another customer, both with a network."""
    async with scene.container(
        "sh", "-c", "while :; do sleep 1; done", network=NetworkAccess.OUTBOUND
    ) as other_container:
        result = await scene.engine.inside.run(other_container, ["cat", "/proc/net/fib_trie"], 10, 20_000)
        arguments = {word for word in result.out.decode().split() if word.startswith("10.213.") and "/" not in word}
        own_addresses = sorted(word for word in arguments if not word.endswith((".0", ".255")))
        checks.that(own_addresses, "the other one has an address", result.out[:200])
        run = await _reached_places(
            scene, *_WORLD_PLACE, *[word for address in own_addresses for word in (address, "80")]
        )
        reach_arguments = [word for address in own_addresses for word in (address, "80")]
        reach_result = await scene.run("probe", "reach", *reach_arguments, network=NetworkAccess.OUTBOUND)
    checks.that(run == [":".join(_WORLD_PLACE)], "only the world is reached", run)
    # A closed port answers "refused" to every packet that arrives, so silence proves that the packets are dropped.
    checks.that(
        "ECONNREFUSED" not in reach_result.text and reach_result.refused(), "packets do not arrive", reach_result.text
    )


@escape_attempt
async def find_the_engine(scene: EscapeScene, checks: EscapeChecks) -> None:
    # A program that can write to the engine's socket is root on the machine.
    """Search for the engine's socket, by its usual names and everywhere."""
    engine_socket = scene.address.removeprefix("unix://")
    usual_sockets = "/var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock"
    script = f"ls {usual_sockets} {engine_socket}; find / -type s 2>/dev/null; echo over"
    run = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
    socket_lines = [line for line in run.text.splitlines() if line.startswith("/")]
    checks.that(not socket_lines and "over" in run.text, "there is no socket", socket_lines or run.text[-200:])


@escape_attempt
async def read_the_providers_key(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Read the provider's key file by its path, through /proc, and through links in the container's folders."""
    # /proc/PID/root leads around the container's own mounts, for every process in sight.
    key_path = scene.key_file.resolve()
    script = (
        f"cat {key_path} /proc/1/root{key_path} /proc/*/root{key_path} /proc/*/cwd/{key_path.name}; cd /out; ln -s "
        f"{key_path} key; cat key; ln -s / root; cat root{key_path}; find / -name {key_path.name} 2>/dev/null; cat "
        "/proc/*/environ; env; echo over"
    )
    run = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
    checks.that(scene.secret not in run.text and "over" in run.text, "it is not there", run.text[-200:])
    checks.that(scene.key_file.read_text() == scene.secret, "it is untouched")


@escape_attempt
async def read_another_customers_files(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Read secrets, inputs and workspace of another customer, in its container and on the host."""
    secret_token = "another-customers-token"  # noqa: S105  # a marker
    customer_files = {"secrets": {"token": secret_token.encode()}, "inputs": {"data": secret_token.encode()}}
    async with scene.container("sleep", "15", **customer_files) as other_container:
        # Docker's own copy followed links that a container swapped meanwhile (CVE-2018-15664).
        await scene.engine.inside.copy_in(other_container, "workspace", {"x": secret_token.encode()})
        engine_data = scene.folder / "engine" / "data"
        script = (
            f"cat /secrets/* /in/* /workspace/*; ls {engine_data} /var/lib/docker/volumes; cat "
            f"{engine_data}/volumes/*/_data/*; "
            f"cat /proc/*/root/secrets/*; find / -name token 2>/dev/null; cat /proc/mounts; echo over"
        )
        run = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
        checks.that(secret_token not in run.text and "over" in run.text, "they are not there", run.text[-200:])
        result = await scene.engine.inside.run(other_container, ["cat", "/secrets/token"], 10, 1_000)
        checks.that(result.out.decode() == secret_token, "their owner reads them")
        inspection_text = str(await scene.ask_engine(lambda engine: engine.inspect_container(other_container.name)))
        checks.that(secret_token not in inspection_text, "a secret stands in nothing that the engine tells")


async def _reached_places(scene: EscapeScene, *places: str) -> list[str]:
    run = await scene.run("probe", "reach", *places, network=NetworkAccess.OUTBOUND)
    return run.done()


# The provider reads /out outside the container, so a link there would hand over the machine's files.
_BAD_OUTPUTS = {
    "a link to a file of the machine": "ln -s /etc/shadow /out/x",
    "a link to a folder": "mkdir /out/d; ln -s / /out/d/x",
    "a hard link": "echo a >/out/a; ln /out/a /out/b",
    "a pipe": "mkfifo /out/x",
    # A sparse file takes no disk here, and all of its size where it is unpacked.
    "a file with a hole of a terabyte": "dd if=/dev/null of=/out/x bs=1 seek=1000000000000",
    "a hundred and one files": "for i in $(seq 101); do touch /out/$i; done",
    "folders in folders": "p=/out; for i in $(seq 20); do p=$p/d; mkdir $p; done",
    # The customer lists these names in a terminal.
    "a name that a terminal takes for a command": "touch \"/out/$(printf '\\033]0;x')\"",
    "a name with a line end": 'touch "/out/a\nb"',
    "a name that is not UTF-8": "touch \"/out/$(printf '\\377')\"",
    "the folder itself as a link": "cd /; rm -r /out || ln -s / /out/../x || ln -s /secrets /out/o",
}


@escape_attempt
async def hand_over_bad_outputs(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Leave links, pipes, holes, too many files, deep folders and bad names in /out."""
    for output_kind, script in _BAD_OUTPUTS.items():
        disk_before, started = used_disk_bytes(scene.folder), time.monotonic()
        async with scene.container("sh", "-c", script) as container:
            run = await scene.ended(container)
            archive_sink = io.BytesIO()
            try:
                output_archive = await scene.engine.outputs(container, archive_sink)
            except ContainerRefusedError as refusal:
                refusal_text = str(refusal)
            else:
                refusal_text = f"TAKEN {output_archive.files} files: {run.text[:100]}"
        checks.that(not refusal_text.startswith("TAKEN"), output_kind, refusal_text)
        checks.that(
            archive_sink.tell() < CONTAINER_LIMITS.output_bytes + MIB and time.monotonic() - started < 15,
            f"{output_kind}: soon refused",
        )
        checks.that(used_disk_bytes(scene.folder) - disk_before < 8 * MIB, f"{output_kind}: no disk taken")
    # The order, times and modes of the files differ between both runs, and must not change the hash.
    script = "mkdir /out/d; echo b >/out/d/b; echo a >/out/a; chmod 4777 /out/a"
    output_hashes = []
    for script_text in (script, "echo a >/out/a; mkdir /out/d; sleep 1; echo b >/out/d/b; chmod 755 /out/a"):
        async with scene.container("sh", "-c", script_text) as container:
            await scene.engine.wait(container)
            output_hashes.append((await scene.engine.outputs(container, io.BytesIO())).blake2_256)
    checks.that(output_hashes[0] == output_hashes[1], "the same files have the same hash")


@escape_attempt
async def hand_over_bad_images(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Use images with unsafe configurations, that unpack to too much, or that take over other images' names."""
    image_files = busybox_files()
    good_image = MadeImage(image_files).archive()
    tar_size_field = struct.pack(">4xQ", 1 << 40)  # GNU's binary size: a terabyte, without any data
    bad_images = {
        # The NVIDIA hook ran on the host with the image's environment, and so loaded its library (CVE-2025-23266).
        "LD_PRELOAD": MadeImage(image_files, {"Env": ["LD_PRELOAD=/evil.so"]}).archive(),
        # With this variable, an image asks the NVIDIA runtime for every GPU of the machine.
        "NVIDIA_VISIBLE_DEVICES": MadeImage(image_files, {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}).archive(),
        # The engine makes an anonymous volume for each, which no limit of ours bounds.
        "volumes": MadeImage(image_files, {"Volumes": {"/data": {}}}).archive(),
        # The engine itself runs health checks, beside the command that was bought.
        "a health check": MadeImage(image_files, {"Healthcheck": {"Test": ["CMD", "yes"]}}).archive(),
        "triggers": MadeImage(image_files, {"OnBuild": ["RUN id"]}).archive(),
        # Leftovers are found by these labels, so an image could name another owner.
        "our labels": MadeImage(image_files, {"Labels": {"org.ogpu.owner": "x"}}).archive(),
        # An id is the hash of the configuration, so a wrong one names another program.
        "another id": replace(good_image, sha256="0" * 64),
        "a packed layer": MadeImage(image_files).archive(is_packed=True),
        # A compressed layer passes a limit on its packed size and then fills the disk.
        "a gigabyte of zeros, packed": MadeImage(image_files).archive(is_packed=True, layer=bytes(64 * MIB)),
        "a layer that is none": MadeImage(image_files).archive(layer=b"\xff" * 4096),
        "a layer with a hole": MadeImage(image_files).archive(
            layer=_with_size(layer_of([ImageFile("x", b"")]), tar_size_field)
        ),
        "more bytes than the limit": MadeImage((*image_files, ImageFile("x", bytes(24 * MIB)))).archive(),
        "an archive that is none": ImageArchive(b"no tar" * 1_000, "1" * 64),
        "half an archive": replace(good_image, content=_half_of_archive(good_image)),
    }
    memory_before, engine_memory_before = resident_bytes(), resident_bytes(first_pid_of("dockerd"))
    for kind, bad_image in bad_images.items():
        try:
            await scene.run("id", image=bad_image, limits={"image_bytes": 16 * MIB})
        except ContainerRefusedError as refusal:
            checks.that(True, kind, refusal)
        else:
            checks.that(False, kind, "it RAN")
    memory_growth = resident_bytes() - memory_before, resident_bytes(first_pid_of("dockerd")) - engine_memory_before
    checks.that(max(memory_growth) < 160 * MIB, "memory", memory_growth)
    # A tag inside the archive would take over a local name that other programs start by.
    tagged_image = MadeImage((*image_files, ImageFile("tagged", b"")), tags=("postgres:latest",)).archive()
    run = await scene.run("id", image=tagged_image)
    image_names = await scene.ask_engine(lambda engine: engine.images(name="postgres"))
    checks.that(run.end.exit_code == 0 and not image_names, "a tag of the archive names nothing here", image_names)


def _with_size(layer_bytes: bytes, size_field: bytes) -> bytes:
    """Return the layer with another size in its first header, and a matching checksum."""
    header = bytearray(layer_bytes[:512])
    header[124:136] = b"\x80" + size_field[1:]
    # The checksum of a tar header is computed with spaces in its own field (POSIX ustar).
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + layer_bytes[512:]


def _half_of_archive(whole_image: ImageArchive) -> bytes:
    assert isinstance(whole_image.content, bytes)
    return whole_image.content[: len(whole_image.content) // 2]


@escape_attempt
async def swap_the_image(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Use a registry with other content than the digest's, and a repository that is not permitted."""
    image_digest = ImageByDigest(REPOSITORY, scene.registry_digest)
    other_repository_image = ImageByDigest(OTHER_REPOSITORY, scene.registry_digest)
    run = await scene.run("echo", "by digest", image=image_digest)
    checks.that(run.text == "by digest", "the right one runs", run.text)
    # A tag can move to another image after the bid; only a digest fixes the content.
    missing_digest_image = replace(image_digest, sha256=hashlib.sha256(b"no such image").hexdigest())
    for kind, swapped_image in {
        "another digest": missing_digest_image,
        "another repository": other_repository_image,
    }.items():
        try:
            await scene.run("id", image=swapped_image)
        except ContainerError as refusal:
            checks.that(True, kind, refusal)
        else:
            checks.that(False, kind, "it RAN")


@escape_attempt
async def outlive_the_provider(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Kill the provider with SIGKILL while containers run. The next one must find exactly its own containers."""
    victim_folder = scene.folder / "victim"
    environment = processes.source_path()
    victim_command = [sys.executable, "-m", "devnet.proofs.escape.victim", scene.address, str(victim_folder)]
    victim_process = await asyncio.create_subprocess_exec(*victim_command, stdout=subprocess.PIPE, env=environment)
    async with scene.container("sleep", "60") as other_container:
        assert victim_process.stdout is not None
        first_line = await asyncio.wait_for(victim_process.stdout.readline(), 60)
        victim_process.kill()
        await victim_process.wait()
        checks.that(first_line == b"standing\n", "it had containers")
        traces_before = await _traces_of_provider(scene, victim_folder.name)
        checks.that(len(traces_before) >= 12, "they are still there", len(traces_before))
        # Containers survive their daemon, because the engine runs them and not the provider.
        async with asyncio.timeout(60):
            next_provider = await open_engine(victim_folder, CONTAINER_POLICY, scene.address)
        await next_provider.close()
        checks.that(next_provider.leftovers.total >= 12, "removed", next_provider.leftovers)
        traces_after = await _traces_of_provider(scene, victim_folder.name)
        checks.that(not traces_after, "nothing is left", traces_after)
        checks.that(not other_container.end.done(), "another provider's container runs on")


async def _traces_of_provider(scene: EscapeScene, folder: str) -> list[str]:
    """Return all objects of a provider: in the engine, firewall rules, loop devices and files."""
    owner_label = (scene.folder / folder / "container-owner").read_text().strip()

    def named(engine: docker.APIClient) -> list[str]:
        object_names = [str(engine_object["Names"]) for engine_object in engine.containers(all=True)]
        object_names += [str(engine_object["Name"]) for engine_object in engine.volumes().get("Volumes") or []]
        return object_names + [str(engine_object["Name"]) for engine_object in engine.networks()]

    object_names = [name for name in await scene.ask_engine(named) if owner_label in name]
    firewall_rules = [line for line in (await run_program("iptables", "-S")).splitlines() if owner_label in line]
    loop_devices = [line for line in (await run_program("losetup", "--all")).splitlines() if owner_label in line]
    return [*object_names, *firewall_rules, *loop_devices, *map(str, (scene.folder / folder / "workspaces").glob("*"))]


ATTEMPTS: Final = {**LIMIT_ATTEMPTS, **attempts_in(globals())}
