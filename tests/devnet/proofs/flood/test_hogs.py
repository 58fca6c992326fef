"""Programs that want every processor end with the attack that they stood beside."""

import os
from pathlib import Path

from devnet.proofs.flood import hogs


def children() -> set[str]:
    return {
        pid
        for task in Path(f"/proc/{os.getpid()}/task").iterdir()
        for pid in (task / "children").read_text(encoding="ascii").split()
    }


def test_there_is_one_for_each_processor_at_the_nodes_priority_and_none_afterwards() -> None:
    before = children()
    with hogs.beside_the_nodes() as count:
        started = children() - before
        assert len(started) == count == len(os.sched_getaffinity(0))
        assert {os.getpriority(os.PRIO_PROCESS, int(pid)) for pid in started} == {os.getpriority(os.PRIO_PROCESS, 0)}
    assert children() == before
