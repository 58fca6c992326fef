"""CPU time of the state trie on accounts in the form of System.Account: build, update, prove and verify, per key.

Run: python -m benchmarks trie          about 10 seconds
"""

import random
import resource

from benchmarks.figures import Figures, Stopwatch
from runtime.cryptography.hashing import blake2_128_concat, twox_128
from runtime.state.trie import Trie
from runtime.state.trie_proof import verify_proof

PREFIX = twox_128(b"System") + twox_128(b"Account")
ACCOUNT_INFO_BYTES = 80
ACCOUNTS = 100_000
UPDATES = (1_000, 5_000, 20_000)
PROOFS = 1_000


def measure() -> Figures:
    """Build one trie and update it several times."""
    rng = random.Random(1)
    keys = [PREFIX + blake2_128_concat(rng.randbytes(32)) for _ in range(ACCOUNTS)]
    contents = {key: rng.randbytes(ACCOUNT_INFO_BYTES) for key in keys}
    watch = Stopwatch()
    trie = Trie(contents)
    figures = {"build_us": each(watch, ACCOUNTS)}
    for count in UPDATES:
        changes = {key: rng.randbytes(ACCOUNT_INFO_BYTES) for key in rng.sample(keys, count)}
        watch.split()
        trie = trie.updated(changes)
        figures[f"update_{count}_keys_us"] = each(watch, count)
    return figures | proofs(trie, keys[:PROOFS]) | {"memory_mib": peak_mib()}


def proofs(trie: Trie, keys: list[bytes]) -> Figures:
    """Make and verify one proof for each key."""
    watch = Stopwatch()
    made = [trie.prove([key]) for key in keys]
    proving = each(watch, len(keys))
    for key, proof in zip(keys, made, strict=True):
        verify_proof(trie.root, proof, key)
    return {"prove_us": proving, "verify_us": each(watch, len(keys)), "proof_bytes": sum(map(len, made[0]))}


def each(watch: Stopwatch, count: int) -> float:
    """Return the microseconds since the last split, divided by `count`."""
    return round(watch.split() / count * 1e6, 2)


def peak_mib() -> float:
    """Return the peak memory of this process in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
