"""CPU time of signatures, the VRF, weighted draws and hashes, on one core.

Run: python benchmarks/signatures.py
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runtime import crypto, vrf
from runtime.crypto import Scheme
from runtime.draw import roulette
from runtime.hashing import blake2_128_concat, blake2_256, twox_64_concat

SEED = bytes(range(32))
MESSAGE = bytes(110)
SECONDS_EACH = 0.3


def main() -> None:
    """One line for each operation."""
    for scheme in Scheme:
        public_key, secret_key = crypto.keypair_from_seed(scheme, SEED)
        signature = crypto.sign(scheme, public_key, secret_key, MESSAGE)
        refused = signature[:32] + bytes([signature[32] ^ 1]) + signature[33:]
        report(f"sign {scheme.name.lower()}", partial(crypto.sign, scheme, public_key, secret_key, MESSAGE))
        report(f"verify {scheme.name.lower()}", partial(crypto.verify, scheme, public_key, MESSAGE, signature))
        report(f"refuse {scheme.name.lower()}", partial(crypto.verify, scheme, public_key, MESSAGE, refused))
    key, (_, proof) = vrf.public_key(SEED), vrf.prove(SEED, MESSAGE)
    report("registration check of a key", lambda: crypto.is_safe_public_key(key))
    report("VRF prove", lambda: vrf.prove(SEED, MESSAGE))
    report("VRF verify", lambda: vrf.verify(key, MESSAGE, proof))
    weights = list(range(1, 129))
    report("draw 1 of 128", lambda: roulette(SEED, b"slot", weights, 1))
    report("draw 20 of 128", lambda: roulette(SEED, b"slot", weights, 20))
    report("blake2_256, 110 bytes", lambda: blake2_256(MESSAGE))
    report("blake2_128_concat, 32 bytes", lambda: blake2_128_concat(SEED))
    report("twox_64_concat, 4 bytes", lambda: twox_64_concat(b"1234"))


def report(what: str, operation: Callable[[], object]) -> None:
    """Run for a fraction of a second and print the mean."""
    rounds, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < SECONDS_EACH:
        for _ in range(100):
            operation()
        rounds += 100
    print(f"{what:<32}{elapsed / rounds * 1e6:9.2f} us")


if __name__ == "__main__":
    main()
