"""The equalities between hashes: on every backend, with published vectors, and over all ways to a result.

Invariant: a backend with fewer hashes than the reference fails. A planted backend must fail.
"""

from collections.abc import Mapping
from hashlib import blake2b

Hashes = Mapping[str, str]
RESUMED = ", on from milestone "
BATCHED = ", texts side by side: "
CHUNKED = ", positions at once: "
WAYS = (RESUMED, BATCHED, CHUNKED)
"""The separators in a result's name between the undisturbed name and the way to the same result."""
ROOT = " trace root"


def differences(truth: Hashes, found: Hashes, *, is_part: bool = False) -> list[str]:
    """Return the names with other hashes than the reference. A part may lack some, but not all."""
    wrong = [name for name, digest in found.items() if truth.get(name) != digest]
    missing = [] if is_part else [name for name in truth if name not in found]
    return sorted({*wrong, *missing}) or ([] if found else ["nothing was computed"])


def other_ways(found: Hashes) -> list[str]:
    """Return the results that differ from the undisturbed ones."""
    return [
        name
        for name, digest in found.items()
        for way in WAYS
        if way in name and digest != found.get(name.split(way)[0])
    ]


def unpublished(published: Hashes, found: Hashes) -> list[str]:
    """Return the vectors that differ from the published ones."""
    return [name for name, digest in published.items() if found.get(name) != digest]


def unseen(truth: Hashes, planted: Hashes) -> list[str]:
    """Return the undetected parts of a planted backend: roots of runs, or whole workloads."""
    wrong = set(differences(truth, planted))
    workloads = {name.split()[0] for name in truth}
    blind = [f"everything of {workload}" for workload in workloads if not any(n.startswith(workload) for n in wrong)]
    return sorted(blind) + [name for name in truth if name.endswith(ROOT) and name not in wrong]


def together(truth: Hashes) -> str:
    """Return one hash over all hashes, to compare machines."""
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(truth.items()))
    return blake2b(lines.encode(), digest_size=16).hexdigest()
