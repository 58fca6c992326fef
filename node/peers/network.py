"""This node on the network: its identity, its transport, and what it knows of its peers.

What always holds: the network is opened before anybody is told of it; `Libp2pTransport.start` makes it listen.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from genesis.spec import ChainSpec
from node.config import Config, Paths
from node.errors import as_bad_input
from node.p2p.core_time import Seconds
from node.p2p.gossip import Gossip
from node.p2p.hello import Role
from node.p2p.identity import IdentityError, NodeIdentity, identity_from_seed, load_or_create
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.transport import TransportError
from node.peers import address_file
from node.peers.peer_proof import IsSeated, PeerProofs
from node.peers.peers import Peers

ProvePeer = Callable[[str], bytes]
"""A validator's proof that its session key stands behind this peer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network room: `peers` speaks over `transport`; `proofs` says which of them are validators."""

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
    seconds: Seconds,
) -> Network:
    """The network of one chain; `prove_peer` is None for a node that only follows.  Raises `BadInputError`.

    `is_seated` says which session keys are in office or elected; `seconds` is the clock by which peers pay for CPU.
    """
    with as_bad_input(IdentityError, TransportError, ValueError):
        identity = _identity(config, paths)
        proofs = PeerProofs(genesis, is_seated)
        settings = TransportConfig(
            genesis=genesis,
            role=Role.FULL if prove_peer is None else Role.VALIDATOR,
            hello=b"" if prove_peer is None else prove_peer(identity.peer_id),
            listen_host=config.listen_host,
            listen_port=config.port,
            bootnodes=(*spec.boot_nodes, *config.bootnodes),
            public_addresses=config.public_addresses,
            known=address_file.load(paths.peers),
            keep=partial(address_file.save, paths.peers),
            devnet=spec.chain_type != "Live",
        )
        transport = Libp2pTransport(settings, identity, proofs.accepts, _chance(), proofs.is_validator, seconds)
    return Network(transport=transport, peers=Peers(transport, proofs.is_validator), proofs=proofs)


def new_gossip() -> Gossip:
    """Gossip of one kind of message, by chance of its own."""
    return Gossip(_chance())


def _identity(config: Config, paths: Paths) -> NodeIdentity:
    if config.node_key is not None:
        return identity_from_seed(config.node_key)
    return load_or_create(paths.node_key)


def _chance() -> random.Random:
    return random.Random(secrets.randbits(64))
