"""The observer as a process beside a devnet, and what it wrote when it was stopped."""

from __future__ import annotations

import json
from typing import Any

from devnet.launcher.layout import Devnet
from devnet.launcher.processes import Process

REPORT = "seen.json"


def observer_of(net: Devnet) -> Process:
    """A peer of all members that remembers what validators sign; not started."""
    words = (str(net.folder), str(net.folder / REPORT))
    return Process("observer", "devnet.measuring.observer", words, net.folder / "observer")


def seen_by_observer(net: Devnet) -> dict[str, Any]:
    """What it saw: counts, and `conflicts`, two signatures of one key for one thing."""
    seen: dict[str, Any] = json.loads((net.folder / REPORT).read_text(encoding="utf-8"))
    return seen
