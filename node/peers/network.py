"""This node on the network: its identity, its transport, and its records of its peers.

Invariant: the network is opened first and listens only after `Libp2pTransport.start`.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from genesis.spec import ChainSpec
from node.config import Config, Paths
from node.errors import as_bad_input
from node.p2p.addresses import Address, AddressError, parse_address
from node.p2p.gossip import Gossip
from node.p2p.hello import Role
from node.p2p.identity import IdentityError, NodeIdentity, identity_from_seed, load_or_create
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.meter import Seconds
from node.p2p.transport import TransportError
from node.peers.peer_proof import IsSeated, PeerProofs
from node.peers.peers import Peers
from wallet import private_file

ProvePeer = Callable[[str], bytes]
"""A function that proves to peers which session keys are behind a peer id."""


# Addresses that led to their peers, kept over a restart: one a line, as text.
# Invariant: the file is bounded. A damaged line loses that line only. A missing file is no fault.
MAX_KEPT: Final = 256
MAX_FILE_BYTES: Final = 64 * 1024
_LOG: Final = logging.getLogger(__name__)


def load(path: Path) -> list[Address]:
    """Return the readable addresses of the file."""
    try:
        with path.open("rb") as file:
            # Damage costs only the lines that it hits: bytes that are not ASCII are replaced.
            text = file.read(MAX_FILE_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        _LOG.warning("%s cannot be read: %s. The node searches for peers again", path, error)
        return []
    addresses = [address for line in text.splitlines() if (address := _read_address(line)) is not None]
    return addresses[:MAX_KEPT]


def save(path: Path, addresses: Iterable[Address]) -> None:
    """Write the first `MAX_KEPT` addresses. A failed write is logged and otherwise ignored."""
    lines = [f"{address}\n" for address in addresses][:MAX_KEPT]
    try:
        private_file.replace(path, "".join(lines).encode("ascii"))
    except OSError as error:
        _LOG.warning("%s cannot be written: %s. After a restart, the node searches for peers again", path, error)


def _read_address(line: str) -> Address | None:
    try:
        return parse_address(line)
    except AddressError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network room: `peers` sends over `transport`; `proofs` identifies validators among them."""

    transport: Libp2pTransport
    peers: Peers
    proofs: PeerProofs


def open_network(
    config: Config,
    paths: Paths,
    spec: ChainSpec,
    genesis: bytes,
    *,
    prove_peer: ProvePeer | None,
    is_seated: IsSeated,
    clock_seconds: Seconds,
) -> Network:
    """Return the network of one chain; `prove_peer` is None for a node that only follows.

    `is_seated` returns whether a session key is in the active or the elected set; `clock_seconds` is the clock by which
    peers pay for CPU. Raise `BadInputError` if a setting is invalid.
    """
    with as_bad_input(IdentityError, TransportError, ValueError):
        identity = _identity(config, paths)
        peer_proofs = PeerProofs(genesis, is_seated)
        settings = TransportConfig(
            genesis=genesis,
            role=Role.FULL if prove_peer is None else Role.VALIDATOR,
            hello=b"" if prove_peer is None else prove_peer(identity.peer_id),
            listen_host=config.listen_host,
            listen_port=config.port,
            bootnodes=(*spec.boot_nodes, *config.bootnodes),
            public_addresses=config.public_addresses,
            known=load(paths.peers),
            keep=partial(save, paths.peers),
            # All nodes of a devnet share one machine: private addresses, and many connections from one host.
            devnet=spec.chain_type != "Live",
        )
        transport = Libp2pTransport(
            settings, identity, peer_proofs.accepts, _random_source(), peer_proofs.is_validator, clock_seconds
        )
    return Network(transport=transport, peers=Peers(transport, peer_proofs.is_validator), proofs=peer_proofs)


def new_gossip() -> Gossip:
    """Return the gossip of one kind of message, with its own random numbers."""
    return Gossip(_random_source())


def _identity(config: Config, paths: Paths) -> NodeIdentity:
    if config.node_key is not None:
        return identity_from_seed(config.node_key)
    return load_or_create(paths.node_key)


def _random_source() -> random.Random:
    return random.Random(secrets.randbits(64))
