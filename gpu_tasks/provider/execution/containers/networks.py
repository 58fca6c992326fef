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
        if reason := await why_not_outbound():
            raise ContainerError(
                "open the network to a container",
                reason,
                "offer only containers without a network",
                code="no_outbound_network",
            )
        network_name, bridge_name = self._owner.name_of(container_id, "network"), self._owner.bridge(container_id)
        network_options = {
            "com.docker.network.bridge.name": bridge_name,
            "com.docker.network.bridge.enable_icc": "false",
            "com.docker.network.bridge.enable_ip_masquerade": "true",
        }
        await self._door.call(
            "make a network",
            lambda client: client.create_network(
                network_name,
                driver="bridge",
                options=network_options,
                labels=self._owner.labels(container_id),
                enable_ipv6=False,
                check_duplicate=True,
            ),
        )
        await _check_engines_rules(bridge_name)
        for firewall_program, firewall_rule in _firewall_rules(bridge_name, self._rule_comment(container_id)):
            await run_program(firewall_program, *_WAIT, "-I", *firewall_rule)
        return network_name

    async def remove(self, container_id: str) -> None:
        """Remove the existing network and rules of a container. Raise ContainerError if something remains."""
        await self._door.remove_network(self._owner.name_of(container_id, "network"))
        await self._remove_rules(self._rule_comment(container_id))

    async def remove_rules(self) -> int:
        """Remove the rules of all containers of this owner, and return their number."""
        return await self._remove_rules(self._owner.prefix)

    def _rule_comment(self, container_id: str) -> str:
        return f"{self._owner.prefix}{container_id}/"

    async def _remove_rules(self, rule_comment: str) -> int:
        removed_count = 0
        if not is_root():
            return removed_count
        # Two removals in parallel would delete by the same listing, and the second would fail.
        async with self._turn:
            for firewall_program in filter(is_there, ("iptables", "ip6tables")):
                for rule_line in (await run_program(firewall_program, *_WAIT, "-S")).splitlines():
                    rule_words = shlex.split(rule_line)
                    if rule_words[:1] == ["-A"] and any(rule_word.startswith(rule_comment) for rule_word in rule_words):
                        await run_program(firewall_program, *_WAIT, "-D", *rule_words[1:])
                        removed_count += 1
        return removed_count


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
    first_rules = [
        rule_line
        for rule_line in (await run_program("iptables", *_WAIT, "-S", "FORWARD")).splitlines()
        if "-A" in rule_line
    ][:1]
    if first_rules != [f"-A FORWARD -j {DOCKER_CHAIN}"]:
        return f"{DOCKER_CHAIN} is not the first rule for forwarded packets"
    return ""


async def _check_engines_rules(bridge_name: str) -> None:
    """Raise ContainerError unless this engine made rules for the bridge. The chains may be another engine's remains."""
    reason = await _why_rules_are_not_asked()
    nat_rules = await run_program("iptables", *_WAIT, "-t", "nat", "-S", "POSTROUTING")
    if not reason and not any(
        f"! -o {bridge_name} " in rule_line and "MASQUERADE" in rule_line for rule_line in nat_rules.splitlines()
    ):
        reason = "the engine runs with --iptables=false, so its networks have no rules"
    if reason:
        raise ContainerError(
            "open the network to a container",
            reason,
            "offer only containers without a network",
            code="no_outbound_network",
        )


def _firewall_rules(bridge_name: str, rule_comment: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rules in the order of insertion. The kernel evaluates the last inserted first."""
    comment_match = ("-m", "comment", "--comment", rule_comment)
    inward_match = ("-i", bridge_name)
    firewall_rules: list[tuple[str, tuple[str, ...]]] = [
        ("iptables", (DOCKER_CHAIN, *inward_match, "-d", closed_range, *comment_match, "-j", "DROP"))
        for closed_range in CLOSED_RANGES
    ]
    firewall_rules.append(("iptables", (DOCKER_CHAIN, *inward_match, *_TOO_MANY, *comment_match, "-j", "DROP")))
    # No connection enters from outside: a packet forwarded to the bridge must be a reply.
    firewall_rules.append(("iptables", (DOCKER_CHAIN, "-o", bridge_name, *comment_match, "-j", "DROP")))
    firewall_rules.append(("iptables", (DOCKER_CHAIN, "-o", bridge_name, *_ANSWERS, *comment_match, "-j", "RETURN")))
    # INPUT covers this machine's own addresses, which are not forwarded.
    firewall_rules.append(("iptables", ("INPUT", *inward_match, *comment_match, "-j", "DROP")))
    firewall_rules.append(("iptables", ("INPUT", *inward_match, *_ANSWERS, *comment_match, "-j", "ACCEPT")))
    # The kernel gives an interface a link-local IPv6 address even if the bridge has no IPv6.
    if is_there("ip6tables"):
        firewall_rules += [
            ("ip6tables", (firewall_chain, *inward_match, *comment_match, "-j", "DROP"))
            for firewall_chain in ("INPUT", "FORWARD")
        ]
    return firewall_rules
