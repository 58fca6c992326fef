"""CPU time of the state trie on accounts as System.Account keeps them.

Run: python benchmarks/trie.py [accounts] [changes ...]     default: 100000 accounts, 5000 10000 20000 changes
"""

import random
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runtime.hashing import blake2_128_concat, twox_128
from runtime.trie import Trie
from runtime.trie_proof import verify_proof

PREFIX = twox_128(b"System") + twox_128(b"Account")
ACCOUNT_INFO_BYTES = 80


def main() -> None:
    """Build, update, prove and verify, with a line for each."""
    arguments = [int(argument) for argument in sys.argv[1:]]
    accounts = arguments[0] if arguments else 100_000
    rng = random.Random(1)
    keys = [PREFIX + blake2_128_concat(rng.randbytes(32)) for _ in range(accounts)]
    contents = {key: rng.randbytes(ACCOUNT_INFO_BYTES) for key in keys}
    start = time.process_time()
    trie = Trie(contents)
    report(f"build {accounts:,} keys", time.process_time() - start, accounts)
    for count in arguments[1:] or [5_000, 10_000, 20_000]:
        trie = measure_update(trie, rng, keys, count)
    measure_proofs(trie, keys[:1_000])
    print(f"{'peak memory':<28}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:10.0f} MB")


def measure_update(trie: Trie, rng: random.Random, keys: list[bytes], count: int) -> Trie:
    """The trie after new values for `count` keys drawn by chance."""
    changes: dict[bytes, bytes | None] = {key: rng.randbytes(ACCOUNT_INFO_BYTES) for key in rng.sample(keys, count)}
    start = time.process_time()
    updated = trie.updated(changes)
    report(f"update {count:,} keys", time.process_time() - start, count)
    return updated


def measure_proofs(trie: Trie, keys: list[bytes]) -> None:
    """One proof for each key."""
    start = time.process_time()
    proofs = [trie.prove([key]) for key in keys]
    report("prove one key", time.process_time() - start, len(keys))
    start = time.process_time()
    for key, proof in zip(keys, proofs, strict=True):
        verify_proof(trie.root, proof, key)
    report("verify one key", time.process_time() - start, len(keys))
    print(f"{'size of a proof':<28}{sum(map(len, proofs[0])):10} bytes")


def report(what: str, seconds: float, count: int) -> None:
    """One line: in all, and for each key."""
    print(f"{what:<28}{seconds * 1e3:10.1f} ms{seconds / count * 1e6:10.2f} us/key")


if __name__ == "__main__":
    main()
