"""`python -m devnet.proofs.flood.strict_node ...`: `ogpu-node` with the slots of a public network on a devnet.

A devnet's nodes accept 256 connections and reserve none, because all its nodes share one address. This node has the
slots of a public network, and its reserve for validators. Limits by address remain a devnet's.
"""

from __future__ import annotations

from dataclasses import replace

from node import cli
from node.p2p.admission import AdmissionLimits


def _few_slots() -> AdmissionLimits:
    public = AdmissionLimits()
    return replace(
        _of_a_devnet(), max_inbound=public.max_inbound, reserved_for_validators=public.reserved_for_validators
    )


_of_a_devnet = AdmissionLimits.devnet

if __name__ == "__main__":
    AdmissionLimits.devnet = staticmethod(_few_slots)  # type: ignore[method-assign]  # of a devnet
    cli.main()
