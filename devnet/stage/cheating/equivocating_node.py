"""`python -m devnet.stage.cheating.equivocating_node ...`: `ogpu-node` that proposes twice in each of its slots.

With `--twice-from EPOCH` it begins in that epoch. The second block leaves out the reference to the newest final block,
so its id differs and it is as valid as the first. Its seal bypasses the sign-state file, which would refuse it. For
development networks only.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from consensus import events as ev
from node import cli, service
from node.duty.author import Author
from node.duty.validator_keys import ValidatorKeys
from node.peers.peers import Peers
from runtime.blocks.block import BLOCK, Block, Header, seal_payload
from runtime.blocks.digest import seal_item
from runtime.execution.block_builder import Authoring
from runtime.pallets.timestamp import Timestamp


class TwiceAuthor(Author):
    """An author that builds the honest block, and announces a second one for the same slot."""

    def __init__(self, peers: Peers, first_epoch: int, **parts: Any) -> None:
        super().__init__(**parts)
        self._peers = peers
        self._first_epoch = first_epoch

    def build(self, request: ev.Build) -> ev.BlockFacts | None:
        """Build the honest block, and announce the second one at once."""
        facts = super().build(request)
        # The second block differs by the missing reference, so only a block with a reference has one.
        if facts is not None and request.final_ref is not None and request.epoch >= self._first_epoch:
            self._peers.announce(BLOCK.encode(self._twin(replace(request, final_ref=None))))
        return facts

    def _twin(self, request: ev.Build) -> Block:
        parent = self._chain[request.parent]
        digest = self._digest(request, parent)
        authoring = Authoring(self._chain.runtime, parent.state, parent.trie, parent.facts.id, digest)
        authoring.inherent(Timestamp.set(now=request.slot * self._chain.parameters.slot_ms))
        built = authoring.finish()
        return Block(_sealed(self._keys, request.epoch, self._chain.genesis, built.header), built.extrinsics)


class EquivocatingNode(service.Node):
    """A node with that author."""

    first_epoch = 0

    def _make_author(self, keys: ValidatorKeys) -> Author:
        return TwiceAuthor(
            self.network.peers,
            self.first_epoch,
            chain=self.chain,
            keys=keys,
            pool=self.pools.transactions,
            verify=self.pools.verifier.verify,
            clock=self.clock,
            inherents=self.pools.inherents,
        )


def _sealed(keys: ValidatorKeys, epoch: int, genesis: bytes, header: Header) -> Header:
    session = keys.session_of(epoch)
    assert session is not None, "it has sealed the first of the two"
    signature = keys.sessions[session].sign_unrecorded(seal_payload(genesis, header))
    digest = (*header.digest, seal_item(signature))
    return Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, digest)


def main() -> None:
    """Run the node."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--twice-from", type=int, default=0)
    options, of_the_node = parser.parse_known_args()
    EquivocatingNode.first_epoch, sys.argv[1:] = options.twice_from, of_the_node
    print("EQUIVOCATING: proposes twice in each slot. For development networks only.", file=sys.stderr)
    service.Node = EquivocatingNode  # type: ignore[misc]  # what `service.run` makes
    cli.main()


if __name__ == "__main__":
    main()
