"""Names of the things that a daemon makes in an engine.

Invariant: only a thing with both our label and our name is ours. Labels alone do not suffice: a container inherits its
image's labels, and the image is a stranger's.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from hashlib import blake2s
from pathlib import Path

from wallet.private_file import own_opener

PREFIX = "org.ogpu."
OWNER_LABEL = f"{PREFIX}owner"
CONTAINER_LABEL = f"{PREFIX}container"
_OWNER_BYTES = 6
_OWNER_FORM = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Owner:
    """A provider's daemon, as named in the engine."""

    name: str
    """12 hexadecimal digits."""

    @property
    def prefix(self) -> str:
        """The prefix of the names of its things."""
        return f"ogpu-{self.name}-"

    def name_of(self, container_id: str, part_name: str) -> str:
        """Return the name of a container's thing."""
        return f"{self.prefix}{container_id}-{part_name}"

    def labels(self, container_id: str) -> dict[str, str]:
        """Return the labels of a container's thing."""
        return {OWNER_LABEL: self.name, CONTAINER_LABEL: container_id}

    def filters(self) -> dict[str, list[str]]:
        """Return the engine's filter for this owner's things."""
        return {"label": [f"{OWNER_LABEL}={self.name}"]}

    def bridge(self, container_id: str) -> str:
        """Return the name of a container's bridge, within the kernel's 15 bytes for an interface."""
        # Hashed, because owner and container together are longer than an interface's name may be.
        return f"og{blake2s(f'{self.name}/{container_id}'.encode(), digest_size=6).hexdigest()}"


def owner_of(folder: Path) -> Owner:
    """Return the owner of a daemon's folder. It is drawn once and stored.

    Raise OSError, or ValueError for a damaged file.
    """
    path = folder / "container-owner"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "w", opener=own_opener) as owner_file:
            owner_file.write(secrets.token_hex(_OWNER_BYTES) + "\n")
    owner_name = path.read_text().strip()
    # A damaged name would hide all earlier containers from the cleanup.
    if not _OWNER_FORM.fullmatch(owner_name):
        raise ValueError(
            f"{path} does not contain 12 hexadecimal digits; remove it once no container of this daemon runs"
        )
    return Owner(owner_name)
