"""What must be equal: every hash on every backend, published vectors, a result whatever the way to it.

Always: a backend that says less than the reference does not pass for equal; one that is wrong on purpose must not.
"""

from collections.abc import Mapping
from hashlib import blake2b

Hashes = Mapping[str, str]
RESUMED = ", on from milestone "
BATCHED = ", texts side by side: "
CHUNKED = ", positions at once: "
WAYS = (RESUMED, BATCHED, CHUNKED)
"""What stands in the name of a result between that of the undisturbed one and the way to come to the same."""
ROOT = " trace root"


def differences(truth: Hashes, found: Hashes, *, is_part: bool = False) -> list[str]:
    """The names whose hashes are not those of the reference; a part may lack some, and has some."""
    wrong = [name for name, digest in found.items() if truth.get(name) != digest]
    missing = [] if is_part else [name for name in truth if name not in found]
    return sorted({*wrong, *missing}) or ([] if found else ["nothing was computed"])


def other_ways(found: Hashes) -> list[str]:
    """The results that are others than the undisturbed ones, for the way that was taken to them."""
    return [
        name
        for name, digest in found.items()
        for way in WAYS
        if way in name and digest != found.get(name.split(way)[0])
    ]


def unpublished(published: Hashes, found: Hashes) -> list[str]:
    """The vectors that are not the published ones."""
    return [name for name, digest in published.items() if found.get(name) != digest]


def unseen(truth: Hashes, planted: Hashes) -> list[str]:
    """What a backend that is wrong in one bit has right: a root of a run, or everything of a workload."""
    wrong = set(differences(truth, planted))
    workloads = {name.split()[0] for name in truth}
    blind = [f"everything of {workload}" for workload in workloads if not any(n.startswith(workload) for n in wrong)]
    return sorted(blind) + [name for name in truth if name.endswith(ROOT) and name not in wrong]


def together(truth: Hashes) -> str:
    """All hashes in one, to compare machines by."""
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(truth.items()))
    return blake2b(lines.encode(), digest_size=16).hexdigest()
