"""`ogpu_*`: methods that no Substrate node has: two statuses of finality, polls, certificates, attestations."""

from __future__ import annotations

from node.rpc.block_reads import BlockReads, header_json, to_hex
from node.rpc.jsonrpc import INVALID_PARAMS, Json, JsonRpcError
from node.rpc.registry import Hex, method
from runtime.blocks.block import HEADER

TOPICS = ("consensus", "polls", "pool", "network", "offences")
MAX_ATTESTATION_BYTES = 4096


class Ogpu:
    """Reads of consensus, and submission of attestations."""

    def __init__(self, blocks: BlockReads) -> None:
        """Create it; it reads from the replica and asks the node."""
        self.blocks = blocks

    @method("ogpu_parameters")
    def parameters(self) -> Json:
        """Return the name of the chain's parameter set, with which a client builds the same runtime."""
        hello = self.blocks.replica.hello
        if hello is None:
            return None
        return {"parameters": hello.parameters, "isDevelopment": hello.chain_type != "Live"}

    @method("ogpu_status")
    def status(self) -> Json:
        """Return the accepted (soft) and the final (certified) block."""
        best, block = self.blocks.best, self.blocks.final
        return {
            "accepted": {"hash": to_hex(best.id), "number": best.header.number},
            "final": {"hash": to_hex(block.id), "number": block.header.number},
        }

    @method("ogpu_certificate")
    async def certificate(self, height: int) -> Json:
        """Return the finality certificate of the lowest certified block at or above a height."""
        certified = await self.blocks.node.certificate_at(height)
        if certified is None:
            return None
        return {"header": header_json(HEADER.decode(certified[2])), "certificate": to_hex(certified[1])}

    @method("ogpu_certifiedHeader")
    async def certified_header(self, height: int | None) -> Json:
        """Return header and certificate of the lowest certified block at or above a height, or of the last final one.

        Null if there is none. One header has at most 24 KiB, one certificate at most 16 KiB.
        """
        wanted_height = self.blocks.final.header.number if height is None else height
        certified = await self.blocks.node.certificate_at(wanted_height)
        return (
            None
            if certified is None
            else {"header": header_json(HEADER.decode(certified[2])), "certificate": to_hex(certified[1])}
        )

    @method("ogpu_handoffs")
    async def handoffs(self, from_epoch: int, count: int) -> Json:
        """Return the handoffs of `count` epochs from `from_epoch` on: each proves the active set of the next epoch.

        The answer is a list of SCALE-encoded handoffs (sealed header, its certificate, the next seats), in order and
        without gaps. It has at most 16, of at most 54 KiB each, and none of an epoch that has not ended.
        """
        return [to_hex(handoff) for handoff in await self.blocks.node.handoffs(from_epoch, count)]

    @method("ogpu_inspect")
    async def inspect(self, topic: str) -> Json:
        """Return figures of the node: consensus, polls, pool, network or offences."""
        if topic not in TOPICS:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"topic: one of {', '.join(TOPICS)}")
        return _feed_value_json(await self.blocks.node.inspect(topic))

    @method("ogpu_submitAttestation")
    async def submit_attestation(self, attestation: Hex) -> Json:
        """Submit a signed attestation of a unit or a task: the node gossips it and puts it into its next block."""
        if len(attestation) > MAX_ATTESTATION_BYTES:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"at most {MAX_ATTESTATION_BYTES} bytes")
        return to_hex(await self.blocks.node.submit_attestation(attestation))


def _feed_value_json(value: Json) -> Json:
    """Return a value of the feed as JSON: bytes become hexadecimal."""
    match value:
        case bytes():
            return to_hex(value)
        case list():
            return [_feed_value_json(inner_value) for inner_value in value]
        case dict():
            return {member_name: _feed_value_json(inner_value) for member_name, inner_value in value.items()}
        case _:
            return value
