"""`python -m devnet.stage.cheating.equivocating_node ...`: `ogpu-node` that proposes twice in each of its slots.

With `--twice-from EPOCH` it begins in that epoch. The second block leaves out the reference to the newest final block,
so its id differs and it is as valid as the first. Its seal bypasses the sign-state file, which would refuse it. For
development networks only.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

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

    # Attributes, not arguments: types then check the arguments of `Author`.
    peers: Peers
    first_epoch: int

    def build(self, request: ev.Build) -> ev.BlockFacts | None:
        """Build the honest block, and announce the second one at once."""
        facts = super().build(request)
        # The second block differs by the missing reference, so only a block with a reference has one.
        if facts is not None and request.final_ref is not None and request.epoch >= self.first_epoch:
            self.peers.announce(BLOCK.encode(self._second_block(replace(request, final_ref=None))))
        return facts

    def _second_block(self, request: ev.Build) -> Block:
        parent = self._chain[request.parent]
        twin_digest = self._digest_items(request, parent)
        authoring = Authoring(self._chain.runtime, parent.state, parent.trie, parent.facts.id, twin_digest)
        authoring.inherent(Timestamp.set(now=request.slot * self._chain.parameters.slot_ms))
        built_block = authoring.finish()
        return Block(
            _sealed_header(self._validator_keys, request.epoch, self._chain.genesis, built_block.header),
            built_block.extrinsics,
        )


class EquivocatingNode(service.Node):
    """A node with that author."""

    first_epoch = 0

    def _make_author(self, keys: ValidatorKeys) -> Author:
        author = TwiceAuthor(
            chain=self.chain,
            validator_keys=keys,
            transaction_pool=self.pools.transactions,
            verify=self.pools.verifier.verify,
            clock=self.clock,
            inherents=self.pools.inherents,
        )
        author.peers, author.first_epoch = self.network.peers, self.first_epoch
        return author


def _sealed_header(keys: ValidatorKeys, epoch: int, genesis_hash: bytes, unsealed_header: Header) -> Header:
    session_key = keys.session_of(epoch)
    assert session_key is not None, "it has sealed the first of the two"
    # The sign-state refuses a second seal for a slot. Unrecorded, it is what a copied sign-state would sign.
    seal_signature = keys.sessions[session_key].sign_unrecorded(seal_payload(genesis_hash, unsealed_header))
    sealed_digest = (*unsealed_header.digest, seal_item(seal_signature))
    return Header(
        unsealed_header.parent_hash,
        unsealed_header.number,
        unsealed_header.state_root,
        unsealed_header.extrinsics_root,
        sealed_digest,
    )


def main() -> None:
    """Run the node."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--twice-from", type=int, default=0)
    own_options, node_arguments = parser.parse_known_args()
    EquivocatingNode.first_epoch, sys.argv[1:] = own_options.twice_from, node_arguments
    print("EQUIVOCATING: proposes twice in each slot. For development networks only.", file=sys.stderr)
    service.Node = EquivocatingNode  # type: ignore[misc]  # what `service.run` makes
    cli.main()


if __name__ == "__main__":
    main()
