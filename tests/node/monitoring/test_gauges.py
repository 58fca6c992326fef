"""Figures with a value at every moment, from the node's parts to Prometheus."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import generate_latest

from node.clock import Clock
from node.monitoring.metrics import Metrics
from node.monitoring.monitoring import Monitoring

FINAL_SLOT, SLOT_MS = 850, 2_000


class SetClock(Clock):
    """A clock 3.5 seconds after the slot of the final block."""

    def now_ms(self) -> int:
        """Return always the same time."""
        return FINAL_SLOT * SLOT_MS + 3_500


def test_each_gauge_has_its_own_value() -> None:
    queue = SimpleNamespace(ready_count=11, future_count=12)
    view: Any = SimpleNamespace(
        machine=SimpleNamespace(best=SimpleNamespace(height=21), final=SimpleNamespace(height=20, slot=FINAL_SLOT)),
        chain=SimpleNamespace(parameters=SimpleNamespace(slot_ms=SLOT_MS)),
        network=SimpleNamespace(
            transport=SimpleNamespace(peers=lambda: range(13)), peers=SimpleNamespace(penalties=14)
        ),
        sync=SimpleNamespace(rejected=15, abstained=16, highest_height=22),
        pools=SimpleNamespace(transactions=SimpleNamespace(queue=queue)),
    )
    metrics, written = Metrics("chain", "name", "version", is_validator=False), []
    monitoring = Monitoring(
        view=view,
        metrics=metrics,
        clock=SetClock(),
        figures=cast("Any", None),
        checks=cast("Any", None),
        imports=cast("Any", None),
        status_line=cast("Any", SimpleNamespace(write_if_due=lambda: written.append(True))),
        polls=cast("Any", None),
    )
    monitoring.read_gauges()
    values = {
        line.partition("{")[0]: float(line.rpartition(" ")[2])
        for line in generate_latest(metrics.registry).decode().splitlines()
        if not line.startswith("#") and "status=" not in line
    }
    expected = {
        "ogpu_final_age_seconds": 3.5,
        "substrate_ready_transactions_number": 11.0,
        "ogpu_future_transactions_number": 12.0,
        "substrate_sub_libp2p_peers_count": 13.0,
        "ogpu_penalties": 14.0,
        "ogpu_rejected_blocks": 15.0,
        "ogpu_abstained_blocks": 16.0,
        "substrate_node_roles": 1.0,
    }
    assert {name: values[name] for name in expected} == expected
    assert b'substrate_block_height{chain="chain",status="sync_target"} 22.0' in generate_latest(metrics.registry)
    assert written == [True]
