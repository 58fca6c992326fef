"""What a block means: the state transition of ogpu, pure and deterministic."""
