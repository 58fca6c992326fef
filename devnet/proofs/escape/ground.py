"""Private network namespaces for the run: one is "this machine", another beside it is "the world".

The world has a public address, a private one, and the address of clouds' metadata services. This machine has routes to
all three. The run enters its namespaces itself (`enter`). So its bridges, rules, mounts and processes never touch the
real machine, and all of them end with the run, however it ends.

`python -m devnet.proofs.escape.ground PORT ADDRESS…` answers at these addresses until it is stopped.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from devnet.launcher import processes
from devnet.launcher.dockerd import why_no_engine
from devnet.launcher.folder import DevnetError

INSIDE_VARIABLE = "OGPU_ESCAPE_GROUND"
MACHINE_PUBLIC, WORLD_PUBLIC = "198.51.100.1", "198.51.100.2"
METADATA_ADDRESS, PRIVATE_ADDRESS = "169.254.169.254", "10.99.0.2"
WORLD_PORT, MACHINE_PORT, LOOPBACK_PORT = 80, 8099, 8098
_WORLD_NAMESPACE = "world"
_PACKAGES = "docker.io iptables busybox-static docker-registry e2fsprogs iproute2 util-linux gcc libc6-dev"
_PROGRAMS = "dockerd docker-init iptables busybox docker-registry mkfs.ext4 ip unshare gcc"


def install_programs() -> None:
    """Install the missing programs. Raise DevnetError without root or apt."""
    missing_names = missing_programs()
    if not missing_names:
        return
    if os.geteuid() != 0 or not _is_installed("apt-get"):
        raise DevnetError(f"missing: {', '.join(missing_names)}; as root: apt-get install {_PACKAGES}")
    apt_environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for apt_arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *_PACKAGES.split()]):
        _run_command(["apt-get", *apt_arguments], apt_environment)
    still_missing = [program for program in missing_names if not _is_installed(program)]
    if still_missing:
        raise DevnetError(f"still missing after apt-get: {', '.join(still_missing)}")


def missing_programs() -> list[str]:
    """Return the missing programs."""
    return [program for program in _PROGRAMS.split() if not _is_installed(program)]


def is_inside() -> bool:
    """Return whether this process runs inside the namespaces."""
    return INSIDE_VARIABLE in os.environ


def enter_namespaces(proof_arguments: Sequence[str]) -> int:
    """Run the proof inside the namespaces, and return its exit status. Raise DevnetError if a program is missing."""
    install_programs()
    if missing_reason := why_no_engine():
        raise DevnetError(missing_reason)
    # With --kill-child, the death of this process ends the whole PID namespace, and so every process in it.
    command = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    # A separate init process: it reaps orphans, which would otherwise remain as zombies.
    init_command = ["docker-init", "--", sys.executable, "-m", "devnet.proofs.escape", *proof_arguments]
    environment = {**processes.source_path(), INSIDE_VARIABLE: "1"}
    return subprocess.run([*command, "--mount-proc", *init_command], env=environment, check=False).returncode


@contextmanager
def namespaces_laid_out() -> Iterator[None]:
    """Set up the world, and servers there and on this machine."""
    _run_command(["mount", "-t", "tmpfs", "run", "/run"])  # names of network namespaces are files there
    for ip_arguments in (
        "link set lo up",
        f"netns add {_WORLD_NAMESPACE}",
        f"link add here type veth peer name there netns {_WORLD_NAMESPACE}",
        f"addr add {MACHINE_PUBLIC}/24 dev here",
        "link set here up",
        f"-n {_WORLD_NAMESPACE} link set lo up",
        f"-n {_WORLD_NAMESPACE} addr add {WORLD_PUBLIC}/24 dev there",
        f"-n {_WORLD_NAMESPACE} addr add {METADATA_ADDRESS}/32 dev there",
        f"-n {_WORLD_NAMESPACE} addr add {PRIVATE_ADDRESS}/32 dev there",
        f"-n {_WORLD_NAMESPACE} link set there up",
        # Reachable on purpose: only the container's own rules may stop the packets.
        f"route add {METADATA_ADDRESS}/32 via {WORLD_PUBLIC}",
        f"route add {PRIVATE_ADDRESS}/32 via {WORLD_PUBLIC}",
        f"route add default via {WORLD_PUBLIC}",
    ):
        _run_command(["ip", *ip_arguments.split()])
    listener_command = [sys.executable, "-m", "devnet.proofs.escape.ground"]
    listener_commands = (
        [
            "ip",
            "netns",
            "exec",
            _WORLD_NAMESPACE,
            *listener_command,
            str(WORLD_PORT),
            WORLD_PUBLIC,
            METADATA_ADDRESS,
            PRIVATE_ADDRESS,
        ],
        [*listener_command, str(MACHINE_PORT), "0.0.0.0"],  # noqa: S104  # all addresses of a private namespace
        [*listener_command, str(LOOPBACK_PORT), "127.0.0.1"],
    )
    listener_processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in listener_commands]
    try:
        for listener in listener_processes:
            assert listener.stdout is not None
            if listener.stdout.readline() != b"listening\n":
                raise DevnetError("no machine answers on the private network of the run")
        yield
    finally:
        for listener in listener_processes:
            listener.kill()
            listener.wait()


def _is_installed(program: str) -> bool:
    return any(os.access(f"{folder}/{program}", os.X_OK) for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"))


def _run_command(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    completed = subprocess.run(list(command), capture_output=True, text=True, check=False, env=environment)
    if completed.returncode:
        raise DevnetError(f"{' '.join(command)}: {(completed.stderr or completed.stdout).strip()[-300:]}")


async def answer_clients(port: int, addresses: Sequence[str]) -> None:
    """Send a line to every client, and disconnect."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"reached\n")
        writer.close()

    loopback_server = await asyncio.start_server(answer, list(addresses), port)
    print("listening", flush=True)
    await loopback_server.serve_forever()


if __name__ == "__main__":
    asyncio.run(answer_clients(int(sys.argv[1]), sys.argv[2:]))
