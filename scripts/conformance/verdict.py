"""What must be equal: every hash on every backend, published vectors, the root of a run however it was taken over.

Always: a backend that says less than the reference does not pass for equal; one that is wrong on purpose must not.
"""

from collections.abc import Mapping
from hashlib import blake2b

Hashes = Mapping[str, str]
RESUMED = ", on from milestone "
ROOT = " trace root"


def differences(truth: Hashes, found: Hashes, *, is_part: bool = False) -> list[str]:
    """The names whose hashes are not those of the reference; a part may lack some, and has some."""
    wrong = [name for name, digest in found.items() if truth.get(name) != digest]
    missing = [] if is_part else [name for name in truth if name not in found]
    return sorted({*wrong, *missing}) or ([] if found else ["nothing was computed"])


def other_roots(found: Hashes) -> list[str]:
    """The runs that ended in another root than an undisturbed one, for having gone on from a milestone."""
    return [name for name, digest in found.items() if RESUMED in name and digest != found.get(name.split(RESUMED)[0])]


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
