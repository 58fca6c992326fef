"""A worker whose workload misbehaves as its request says, for tests of the limits. It speaks the real protocol."""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from gpu_tasks.provider.execution import limits, worker
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.worker_wire import LENGTH_BYTES
from gpu_tasks.workloads.workload import OutputCheck, Workload

POURED_BYTES = 1 << 20
POURED_AT_ONCE = 1 << 13
CLONE_NEWUSER = 0x10000000


class Hostile(Workload):
    """Runs the requested attack."""

    workload_id, model_id = b"w" * 32, b"m" * 32
    is_device_lost = False

    def run(self, request: bytes) -> bytes:
        """Attack. After one device failure every later request fails too, as with CUDA, until the process ends."""
        output = self._attacked(request)
        if self.is_device_lost:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return output

    def _attacked(self, request: bytes) -> bytes:  # noqa: C901, PLR0912 - a list of attacks
        match request.decode().split(" ", 1):
            case ["echo", text]:
                return text.encode()
            case ["sleep", seconds]:
                time.sleep(float(seconds))
            case ["memory"]:
                return bytes(1 << 40)
            case ["memory-slowly"]:
                hoard = []
                while True:
                    hoard.append(bytearray(1 << 24))
            case ["loop"]:
                while True:
                    pass
            case ["sleep"]:
                time.sleep(3600)
            case ["die"]:
                os._exit(3)
            case ["write", path]:
                Path(path).write_bytes(b"x" * 100)
            case ["print"]:
                print("x" * 1_000_000)  # noqa: T201 - what a library may do
                sys.stderr.write("y" * 1_000_000)
                return b"printed"
            case ["garbage"]:
                for file in range(3, 32):
                    with suppress(OSError):
                        os.write(file, b"\xff" * 64)
            case ["pour"]:
                for file in range(3, 32):
                    with suppress(OSError):
                        pour(file)
            case ["child", path]:
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
                Path(path).write_text(str(child.pid))
                time.sleep(3600)
            case ["environment"]:
                return json.dumps(dict(os.environ)).encode()
            case ["session"]:
                return f"{os.getsid(0)} {os.getpid()}".encode()
            case ["meet", place]:
                folder, name = place.rsplit(" ", 1)
                Path(folder, name).mkdir()
                while len(list(Path(folder).iterdir())) < 2:  # until another worker is at work at the same time
                    time.sleep(0.01)
                return name.encode()
            case ["files"]:
                opened = []
                while True:
                    opened.append(os.open("/dev/null", os.O_RDONLY))
            case ["fork"]:
                os.fork()
            case ["device-lost"]:
                self.is_device_lost = True
            case _:
                return out_of_bounds(request)
        return b""

    def verify(self, request: bytes, output: bytes) -> OutputCheck:
        return OutputCheck(valid=True, recomputed=0, first_wrong=None)

    def fingerprint(self, request: bytes, output: bytes, seed: bytes) -> bytes:
        return self.run(request)

    def conformance(self) -> bytes:
        return b""


def out_of_bounds(request: bytes) -> bytes:
    """Try an act that the sandbox must prevent."""
    match request.decode().split(" ", 1):
        case ["orphan", mark]:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", mark])
            time.sleep(3600)
        case ["read", path]:
            return Path(path).read_bytes()
        case ["folder", path]:
            Path(path).mkdir()
        case ["connect", port]:
            socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
        case ["processes"]:
            return " ".join(sorted(each.name for each in Path("/proc").iterdir() if each.name.isdigit())).encode()
        case ["namespace"]:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
                raise OSError(ctypes.get_errno(), "no namespace")
        case _:
            pass
    return b""


def pour(file: int) -> None:
    """Begin an answer that takes seconds to arrive."""
    os.write(file, POURED_BYTES.to_bytes(LENGTH_BYTES, "little"))
    for _ in range(POURED_BYTES // POURED_AT_ONCE):
        os.write(file, bytes(POURED_AT_ONCE))
        time.sleep(0.01)


def main() -> None:
    allowed = Limits(**json.loads(sys.argv[1]))
    limits.apply(allowed)
    worker.serve(Hostile(), allowed, *worker.pipes())


if __name__ == "__main__":
    main()
