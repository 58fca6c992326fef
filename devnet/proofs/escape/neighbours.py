"""Attempts on what stands beside a container: networks, other containers, the engine's socket, the provider's files."""

from __future__ import annotations

from devnet.proofs.escape import ground
from devnet.proofs.escape.attempt import EscapeChecks, attempt
from devnet.proofs.escape.scene import EscapeScene
from gpu_tasks.provider.execution.containers.spec import NetworkAccess

_WORLD = (ground.WORLD_PUBLIC, str(ground.WORLD_PORT))
_FIND_SECONDS = 30


@attempt
async def use_the_network_without_leave(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Reach anybody from a container that was allowed no network."""
    places = (*_WORLD, ground.METADATA, "80", ground.MACHINE_PUBLIC, str(ground.MACHINE_PORT), "127.0.0.1", "8098")
    ran = await scene.run("probe", "reach", *places)
    checks.that(not ran.done() and ran.refused() == 4, "nobody is reached", ran.text)
    ran = await scene.shell("ls /sys/class/net; cat /proc/net/route /proc/net/if_inet6 | wc -l; cat /proc/net/dev")
    checks.that(ran.text.splitlines()[:1] == ["lo"] and "eth" not in ran.text, "it has no interface", ran.text[:200])


@attempt
async def ask_the_cloud(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Reach 169.254.169.254, where a cloud gives a machine its keys, from a container with a network."""
    ran = await _reach(scene, *_WORLD, ground.METADATA, "80", "169.254.170.2", "80")
    checks.that(ran == [":".join(_WORLD)], "only the world is reached", ran)


@attempt
async def reach_the_machine(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Reach the machine's loopback ports, its addresses, its private networks, from a container with a network."""
    gateways = [f"10.213.{number}.1" for number in range(3)]
    machine = [word for place in (*gateways, ground.MACHINE_PUBLIC) for word in (place, str(ground.MACHINE_PORT))]
    loopback = ["127.0.0.1", str(ground.LOOPBACK_PORT), "127.0.0.1", str(ground.MACHINE_PORT)]
    ran = await _reach(scene, *_WORLD, *machine, *loopback, ground.PRIVATE, "80")
    checks.that(ran == [":".join(_WORLD)], "only the world is reached", ran)


@attempt
async def reach_another_container(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Reach a container of another customer, both with a network."""
    async with scene.container("sh", "-c", "while :; do sleep 1; done", network=NetworkAccess.OUTBOUND) as other:
        said = await scene.engine.inside.run(other, ["cat", "/proc/net/fib_trie"], 10, 20_000)
        words = {word for word in said.out.decode().split() if word.startswith("10.213.") and "/" not in word}
        own = sorted(word for word in words if not word.endswith((".0", ".255")))
        checks.that(own, "the other one has an address", said.out[:200])
        ran = await _reach(scene, *_WORLD, *[word for address in own for word in (address, "80")])
        places = [word for address in own for word in (address, "80")]
        refused = await scene.run("probe", "reach", *places, network=NetworkAccess.OUTBOUND)
    checks.that(ran == [":".join(_WORLD)], "only the world is reached", ran)
    # A port nobody listens on answers "refused" to who gets there: silence says that the packets are dropped.
    checks.that("ECONNREFUSED" not in refused.text and refused.refused(), "packets do not arrive", refused.text)


@attempt
async def find_the_engine(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Look for the engine's socket, by its usual names and by looking everywhere."""
    socket = scene.address.removeprefix("unix://")
    usual = "/var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock"
    script = f"ls {usual} {socket}; find / -type s 2>/dev/null; echo over"
    ran = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
    found = [line for line in ran.text.splitlines() if line.startswith("/")]
    checks.that(not found and "over" in ran.text, "there is no socket", found or ran.text[-200:])


@attempt
async def read_the_providers_key(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Read the provider's key file by its path, through /proc, through links in its own folders and outputs."""
    key = scene.key_file.resolve()
    script = (
        f"cat {key} /proc/1/root{key} /proc/*/root{key} /proc/*/cwd/{key.name}; cd /out; ln -s {key} key; cat key; "
        f"ln -s / root; cat root{key}; find / -name {key.name} 2>/dev/null; cat /proc/*/environ; env; echo over"
    )
    ran = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
    checks.that(scene.secret not in ran.text and "over" in ran.text, "it is not there", ran.text[-200:])
    checks.that(scene.key_file.read_text() == scene.secret, "it is untouched")


@attempt
async def read_another_customers_files(scene: EscapeScene, checks: EscapeChecks) -> None:
    """Read secrets, inputs and workspace of another customer, in its container and on the way there."""
    token = "another-customers-token"  # noqa: S105 a marker
    things = {"secrets": {"token": token.encode()}, "inputs": {"data": token.encode()}}
    async with scene.container("sleep", "15", **things) as other:
        await scene.engine.inside.copy_in(other, "workspace", {"x": token.encode()})
        data = scene.folder / "engine" / "data"
        script = (
            f"cat /secrets/* /in/* /workspace/*; ls {data} /var/lib/docker/volumes; cat {data}/volumes/*/_data/*; "
            f"cat /proc/*/root/secrets/*; find / -name token 2>/dev/null; cat /proc/mounts; echo over"
        )
        ran = await scene.shell(script, limits={"wall_seconds": _FIND_SECONDS})
        checks.that(token not in ran.text and "over" in ran.text, "they are not there", ran.text[-200:])
        seen = await scene.engine.inside.run(other, ["cat", "/secrets/token"], 10, 1_000)
        checks.that(seen.out.decode() == token, "their owner reads them")
        told = str(await scene.ask_engine(lambda client: client.inspect_container(other.name)))
        checks.that(token not in told, "a secret stands in nothing that the engine tells")


async def _reach(scene: EscapeScene, *places: str) -> list[str]:
    ran = await scene.run("probe", "reach", *places, network=NetworkAccess.OUTBOUND)
    return ran.done()
