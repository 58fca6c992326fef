"""Outbound network access: a bridge for one container, and kernel rules that close everything except public addresses.

Invariant: the rules exist before the container starts and until after its removal. These destinations are closed:

* this machine at any of its addresses
* private, shared, link-local (a cloud's metadata) and reserved ranges, including other containers
* all of IPv6

Replies to the machine's own requests pass.

Ranges: IANA's special-purpose registry (RFC 6890).
"""

from __future__ import annotations

import asyncio
import shlex

from gpu_tasks.provider.execution.containers.docker_door import DockerDoor
from gpu_tasks.provider.execution.containers.labels import Owner
from gpu_tasks.provider.execution.containers.programs import is_root, is_there, run_program
from gpu_tasks.provider.execution.containers.refusals import ContainerError

CLOSED_RANGES = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
DOCKER_CHAIN = "DOCKER-USER"
"""Docker's chain for rules of others. The kernel evaluates it before Docker's own."""
_WAIT = ("-w", "10")
CONNECTIONS_MAX = 512
"""Connections of one container at once. The kernel's connection table is shared by the whole machine."""
_TOO_MANY = (
    "-m",
    "conntrack",
    "--ctstate",
    "NEW",
    "-m",
    "connlimit",
    "--connlimit-above",
    str(CONNECTIONS_MAX),
    "--connlimit-mask",
    "0",
)
_ANSWERS = ("-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED")


class Networks:
    """The bridges of one owner."""

    def __init__(self, door: DockerDoor, owner: Owner) -> None:
        """Rules carry the owner's name as a comment."""
        self._door = door
        self._owner = owner
        self._turn = asyncio.Lock()

    async def make(self, container_id: str) -> str:
        """Make a network that reaches public addresses only, and return its name. Raise ContainerError on failure."""
        if why := await why_not_outbound():
            raise ContainerError(
                "open the network to a container",
                why,
                "offer only containers without a network",
                code="no_outbound_network",
            )
        name, bridge = self._owner.name_of(container_id, "network"), self._owner.bridge(container_id)
        options = {
            "com.docker.network.bridge.name": bridge,
            "com.docker.network.bridge.enable_icc": "false",
            "com.docker.network.bridge.enable_ip_masquerade": "true",
        }
        await self._door.call(
            "make a network",
            lambda client: client.create_network(
                name,
                driver="bridge",
                options=options,
                labels=self._owner.labels(container_id),
                enable_ipv6=False,
                check_duplicate=True,
            ),
        )
        await _check_engines_rules(bridge)
        for program, rule in _rules(bridge, self._comment(container_id)):
            await run_program(program, *_WAIT, "-I", *rule)
        return name

    async def remove(self, container_id: str) -> None:
        """Remove the existing network and rules of a container. Raise ContainerError if something remains."""
        await self._door.remove_network(self._owner.name_of(container_id, "network"))
        await self._remove_rules(self._comment(container_id))

    async def remove_rules(self) -> int:
        """Remove the rules of all containers of this owner, and return their number."""
        return await self._remove_rules(self._owner.prefix)

    def _comment(self, container_id: str) -> str:
        return f"{self._owner.prefix}{container_id}/"

    async def _remove_rules(self, comment: str) -> int:
        removed = 0
        if not is_root():
            return removed
        # Two removals in parallel would delete by the same listing, and the second would fail.
        async with self._turn:
            for program in filter(is_there, ("iptables", "ip6tables")):
                for line in (await run_program(program, *_WAIT, "-S")).splitlines():
                    words = shlex.split(line)
                    if words[:1] == ["-A"] and any(word.startswith(comment) for word in words):
                        await run_program(program, *_WAIT, "-D", *words[1:])
                        removed += 1
        return removed


async def why_not_outbound() -> str:
    """Return the reason that outbound access is impossible on this machine; empty if it is possible."""
    if not is_root():
        return "the daemon is not root and cannot change firewall rules"
    if not is_there("iptables"):
        return "iptables is not installed"
    try:
        await run_program("iptables", *_WAIT, "-S", DOCKER_CHAIN)
    except ContainerError as error:
        return f"the engine has no firewall rules of its own ({error.why})"
    return await _why_rules_are_not_asked()


async def _why_rules_are_not_asked() -> str:
    """Return the reason that the kernel does not evaluate the engine's chain first; empty if it does."""
    first = [line for line in (await run_program("iptables", *_WAIT, "-S", "FORWARD")).splitlines() if "-A" in line][:1]
    if first != [f"-A FORWARD -j {DOCKER_CHAIN}"]:
        return f"{DOCKER_CHAIN} is not the first rule for forwarded packets"
    return ""


async def _check_engines_rules(bridge: str) -> None:
    """Raise ContainerError unless this engine made rules for the bridge. The chains may be another engine's remains."""
    why = await _why_rules_are_not_asked()
    hidden = await run_program("iptables", *_WAIT, "-t", "nat", "-S", "POSTROUTING")
    if not why and not any(f"! -o {bridge} " in line and "MASQUERADE" in line for line in hidden.splitlines()):
        why = "the engine runs with --iptables=false, so its networks have no rules"
    if why:
        raise ContainerError(
            "open the network to a container",
            why,
            "offer only containers without a network",
            code="no_outbound_network",
        )


def _rules(bridge: str, comment: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rules in the order of insertion. The kernel evaluates the last inserted first."""
    said = ("-m", "comment", "--comment", comment)
    inward = ("-i", bridge)
    rules: list[tuple[str, tuple[str, ...]]] = [
        ("iptables", (DOCKER_CHAIN, *inward, "-d", closed, *said, "-j", "DROP")) for closed in CLOSED_RANGES
    ]
    rules.append(("iptables", (DOCKER_CHAIN, *inward, *_TOO_MANY, *said, "-j", "DROP")))
    # No connection enters from outside: a packet forwarded to the bridge must be a reply.
    rules.append(("iptables", (DOCKER_CHAIN, "-o", bridge, *said, "-j", "DROP")))
    rules.append(("iptables", (DOCKER_CHAIN, "-o", bridge, *_ANSWERS, *said, "-j", "RETURN")))
    # INPUT covers this machine's own addresses, which are not forwarded.
    rules.append(("iptables", ("INPUT", *inward, *said, "-j", "DROP")))
    rules.append(("iptables", ("INPUT", *inward, *_ANSWERS, *said, "-j", "ACCEPT")))
    # The kernel gives an interface a link-local IPv6 address even if the bridge has no IPv6.
    if is_there("ip6tables"):
        rules += [("ip6tables", (chain, *inward, *said, "-j", "DROP")) for chain in ("INPUT", "FORWARD")]
    return rules
