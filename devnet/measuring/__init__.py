"""What proofs and demo read off a running devnet: its ledger, latencies, signatures."""
