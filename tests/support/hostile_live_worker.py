"""A live worker whose lanes misbehave as their requests say. It speaks the real protocol."""

import json
import os
import sys
import time
from collections.abc import Collection
from contextlib import suppress

from gpu_tasks.provider.execution import limits, worker
from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.live_worker import serve_live
from gpu_tasks.workloads.streamed import Lanes, LaneTokens
from runtime.encoding.codec import DecodeError

HALF = (7,) * (wire.LIVE_WINDOW // 2)


class HostileLanes(Lanes):
    """Each step gives every lane the progress that its request asks for."""

    def __init__(self) -> None:
        self._requests: dict[int, bytes] = {}

    def begin(self, encoded_request: bytes) -> int:
        if encoded_request == b"bad":
            raise DecodeError("no request")
        lane = next(lane for lane in range(64) if lane not in self._requests)
        self._requests[lane] = encoded_request
        return lane

    def drop(self, lane: int) -> None:
        del self._requests[lane]

    def step(self, paused: Collection[int] = ()) -> list[LaneTokens]:
        progress = [found for lane in list(self._requests) if lane not in paused for found in self._attack(lane)]
        for lane, _, finish in progress:
            if finish is not None:
                del self._requests[lane]
        return progress

    def _attack(self, lane: int) -> list[LaneTokens]:  # noqa: C901 - a list of attacks
        match self._requests[lane]:
            case b"die":
                os._exit(3)
            case b"loop":
                while True:
                    pass
            case b"sleep":
                time.sleep(3600)
            case b"memory":
                return [LaneTokens(lane, (len(bytes(1 << 40)),), None)]
            case b"garbage":
                pour(b"\xff" * 64)
            case b"flood":
                return [LaneTokens(lane, HALF, None)] * 3
            case b"empty":
                return [LaneTokens(lane, (), 0)]
            case b"once":
                return [LaneTokens(lane, (os.getpid(),), 0)]
            case b"ready":
                self._requests[lane] = b"wait"
                pour(wire.framed(wire.LIVE_ANSWER.encode(wire.Ready(bytes(32), bytes(32)))))
            case _:
                time.sleep(0.01)
                return [LaneTokens(lane, (1,), None)]
        return []


def pour(answers: bytes) -> None:
    """Write bytes to the daemon, past the protocol."""
    for file in range(3, 32):
        with suppress(OSError):
            os.write(file, answers)


def main() -> None:
    allowed = Limits(**json.loads(sys.argv[1]))
    limits.apply(allowed)
    source, sink = worker.pipes()
    worker.answer(sink, wire.Ready(b"w" * 32, b"m" * 32))
    serve_live(HostileLanes(), int(sys.argv[2]), allowed, source.fileno(), sink)


if __name__ == "__main__":
    main()
