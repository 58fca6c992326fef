"""What a program leaves: its outputs and last lines, sealed to its customer; and the record of what it used.

Always: the chain has the hash of the outputs before they are sealed, so whoever opens them sees that they are those;
nobody but the customer and this provider can.
"""

from __future__ import annotations

from gpu_tasks.data.program_left import encode_left
from gpu_tasks.data.sealing import seal
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.containers.logs import ContainerLog
from gpu_tasks.provider.execution.containers.run import ContainerEnd
from gpu_tasks.provider.programs.log_lines import log_lines
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import codec

NOTHING = bytes(32)
"""The root and the address of outputs that are not there."""
UNKNOWN_EXIT = 255
_USAGE = codec(Usage)


def interval_of(number: int, usage: Usage) -> Milestone:
    """What is stated of an interval: the hash of its record, and for how many seconds a GPU worked."""
    return Milestone(number, blake2_256(b"ogpu/usage/1" + _USAGE.encode(usage)), usage.gpu_ms // 1_000, NOTHING)


def stored(parts: Parts[object], archive: bytes, log: ContainerLog, reply_key: bytes) -> bytes:
    """Seal outputs and last lines and put them into the own store; their address. ValueError for too many bytes."""
    content = encode_left(archive, log_lines(log.lines, log.began_ms), log.lines_seen)
    readers = list(dict.fromkeys((reply_key, parts.identity.seal_key.public)))
    return parts.store.put(seal(content, readers), is_own=True)


def result_of(end: ContainerEnd, root: bytes, blob: bytes) -> TaskResult:
    """What is stated of the end: the outputs' hash and address, and the program's exit code."""
    return TaskResult(root, blob, UNKNOWN_EXIT if end.exit_code < 0 else end.exit_code)
