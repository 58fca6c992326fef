"""Execution without a world: whatever reads files, clocks, chance, sockets or the environment raises instead.

Always: what was taken away is back after the `with`. Native code (hashes, signature checks) is out of reach of this.
"""

import builtins
import os
import random
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest.mock import patch

WORLD: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (builtins, ("open", "input", "print")),
    (os, ("urandom", "getrandom", "open", "stat", "listdir", "getenv", "getpid", "system", "times", "cpu_count")),
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "localtime", "gmtime", "sleep")),
    (random, ("Random", "random", "randrange", "randint", "choice", "shuffle", "sample", "getrandbits", "randbytes")),
    (secrets, ("token_bytes", "randbelow", "randbits", "choice", "token_hex")),
    (socket, ("socket", "create_connection", "getaddrinfo", "gethostname")),
    (subprocess, ("Popen", "run")),
    (threading, ("Thread", "Timer", "get_ident")),
)


class WorldTouched(BaseException):
    """Execution reached outside. Not an Exception, so that no handler on the way can swallow it."""


@contextmanager
def no_world() -> Iterator[None]:
    """Take the world away for the body of the `with`."""
    with ExitStack() as stack:
        for module, names in WORLD:
            for name in names:
                stack.enter_context(patch.object(module, name, _raiser(f"{module.__name__}.{name}")))
        yield


def _raiser(name: str) -> Any:
    def touched(*_: Any, **__: Any) -> NoReturn:
        raise WorldTouched(name)

    return touched
