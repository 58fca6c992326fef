"""What waits for a block: extrinsics and attestations, their signature checks, their gossip."""
