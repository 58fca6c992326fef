"""CPU time of signatures, the VRF, weighted draws and hashes, on one core.

Run: python -m benchmarks signatures          about 5 seconds
"""

import time
from collections.abc import Callable
from functools import partial

from benchmarks.figures import Figures
from runtime.cryptography import signatures, vrf
from runtime.cryptography.draw import roulette
from runtime.cryptography.hashing import blake2_128_concat, blake2_256, twox_64_concat
from runtime.cryptography.signatures import Scheme

SEED = bytes(range(32))
MESSAGE = bytes(110)
SECONDS_EACH = 0.3


def measure() -> Figures:
    """Return the mean microseconds of each operation."""
    return {f"{name}_us": mean_us(operation) for name, operation in operations().items()}


def operations() -> dict[str, Callable[[], object]]:
    """Return the measured operations by name."""
    found: dict[str, Callable[[], object]] = {}
    for scheme in Scheme:
        name = scheme.name.lower()
        public_key, secret_key = signatures.keypair_from_seed(scheme, SEED)
        signature = signatures.sign(scheme, public_key, secret_key, MESSAGE)
        refused = signature[:32] + bytes([signature[32] ^ 1]) + signature[33:]
        found[f"sign_{name}"] = partial(signatures.sign, scheme, public_key, secret_key, MESSAGE)
        found[f"verify_{name}"] = partial(signatures.verify, scheme, public_key, MESSAGE, signature)
        found[f"refuse_{name}"] = partial(signatures.verify, scheme, public_key, MESSAGE, refused)
    key, (_, proof) = vrf.public_key(SEED), vrf.prove(SEED, MESSAGE)
    weights = list(range(1, 129))
    return found | {
        "registration_check_of_a_key": partial(signatures.is_safe_public_key, key),
        "vrf_prove": partial(vrf.prove, SEED, MESSAGE),
        "vrf_verify": partial(vrf.verify, key, MESSAGE, proof),
        "draw_1_of_128": partial(roulette, SEED, b"slot", weights, 1),
        "draw_20_of_128": partial(roulette, SEED, b"slot", weights, 20),
        "blake2_256_of_110_bytes": partial(blake2_256, MESSAGE),
        "blake2_128_concat_of_32_bytes": partial(blake2_128_concat, SEED),
        "twox_64_concat_of_4_bytes": partial(twox_64_concat, b"1234"),
    }


def mean_us(operation: Callable[[], object]) -> float:
    """Run an operation for a fraction of a second. Return the mean in microseconds."""
    rounds, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < SECONDS_EACH:
        for _ in range(100):
            operation()
        rounds += 100
    return round(elapsed / rounds * 1e6, 2)
