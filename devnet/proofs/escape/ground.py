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

INSIDE = "OGPU_ESCAPE_GROUND"
MACHINE_PUBLIC, WORLD_PUBLIC = "198.51.100.1", "198.51.100.2"
METADATA, PRIVATE = "169.254.169.254", "10.99.0.2"
WORLD_PORT, MACHINE_PORT, LOOPBACK_PORT = 80, 8099, 8098
_WORLD = "world"
_PACKAGES = "docker.io iptables busybox-static docker-registry e2fsprogs iproute2 util-linux gcc libc6-dev"
_PROGRAMS = "dockerd docker-init iptables busybox docker-registry mkfs.ext4 ip unshare gcc"


def install() -> None:
    """Install the missing programs. Raise DevnetError without root or apt."""
    missing = missing_programs()
    if not missing:
        return
    if os.geteuid() != 0 or not _is_there("apt-get"):
        raise DevnetError(f"missing: {', '.join(missing)}; as root: apt-get install {_PACKAGES}")
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *_PACKAGES.split()]):
        _call(["apt-get", *arguments], settings)
    still = [name for name in missing if not _is_there(name)]
    if still:
        raise DevnetError(f"still missing after apt-get: {', '.join(still)}")


def missing_programs() -> list[str]:
    """Return the missing programs."""
    return [name for name in _PROGRAMS.split() if not _is_there(name)]


def is_inside() -> bool:
    """Return whether this process runs inside the namespaces."""
    return INSIDE in os.environ


def enter(arguments: Sequence[str]) -> int:
    """Run the proof inside the namespaces, and return its exit status. Raise DevnetError if a program is missing."""
    install()
    if why := why_no_engine():
        raise DevnetError(why)
    command = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    # A separate init process: it reaps orphans, which would otherwise remain as zombies.
    program = ["docker-init", "--", sys.executable, "-m", "devnet.proofs.escape", *arguments]
    environment = {**processes.source_path(), INSIDE: "1"}
    return subprocess.run([*command, "--mount-proc", *program], env=environment, check=False).returncode


@contextmanager
def laid_out() -> Iterator[None]:
    """Set up the world, and servers there and on this machine."""
    _call(["mount", "-t", "tmpfs", "run", "/run"])  # names of network namespaces are files there
    for line in (
        "link set lo up",
        f"netns add {_WORLD}",
        f"link add here type veth peer name there netns {_WORLD}",
        f"addr add {MACHINE_PUBLIC}/24 dev here",
        "link set here up",
        f"-n {_WORLD} link set lo up",
        f"-n {_WORLD} addr add {WORLD_PUBLIC}/24 dev there",
        f"-n {_WORLD} addr add {METADATA}/32 dev there",
        f"-n {_WORLD} addr add {PRIVATE}/32 dev there",
        f"-n {_WORLD} link set there up",
        f"route add {METADATA}/32 via {WORLD_PUBLIC}",
        f"route add {PRIVATE}/32 via {WORLD_PUBLIC}",
        f"route add default via {WORLD_PUBLIC}",
    ):
        _call(["ip", *line.split()])
    listener = [sys.executable, "-m", "devnet.proofs.escape.ground"]
    commands = (
        ["ip", "netns", "exec", _WORLD, *listener, str(WORLD_PORT), WORLD_PUBLIC, METADATA, PRIVATE],
        [*listener, str(MACHINE_PORT), "0.0.0.0"],  # noqa: S104  # all addresses of a private namespace
        [*listener, str(LOOPBACK_PORT), "127.0.0.1"],
    )
    answering = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    try:
        for listening in answering:
            assert listening.stdout is not None
            if listening.stdout.readline() != b"listening\n":
                raise DevnetError("nobody answers on the private network of the run")
        yield
    finally:
        for listening in answering:
            listening.kill()
            listening.wait()


def _is_there(name: str) -> bool:
    return any(os.access(f"{folder}/{name}", os.X_OK) for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"))


def _call(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(list(command), capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise DevnetError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")


async def listen(port: int, addresses: Sequence[str]) -> None:
    """Send a line to every client, and disconnect."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"reached\n")
        writer.close()

    server = await asyncio.start_server(answer, list(addresses), port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(listen(int(sys.argv[1]), sys.argv[2:]))
