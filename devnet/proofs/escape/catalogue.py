"""Every attempt, in the order in which they are made."""

from __future__ import annotations

from typing import Final

from devnet.proofs.escape import handed_over, kernel, neighbours, resources
from devnet.proofs.escape.attempt import EscapeAttempt

_IN_ORDER: Final = (
    resources.fill_the_disk,
    resources.use_up_the_inodes,
    resources.eat_the_memory,
    resources.start_too_many_processes,
    resources.fork_bomb,
    resources.stay_beyond_its_time,
    resources.take_the_processors,
    resources.flood_the_log,
    resources.open_too_many_files,
    kernel.mount_something,
    kernel.change_the_system,
    kernel.become_root,
    kernel.reach_other_processes,
    kernel.make_devices,
    kernel.open_raw_sockets,
    kernel.call_the_kernel,
    neighbours.use_the_network_without_leave,
    neighbours.ask_the_cloud,
    neighbours.reach_the_machine,
    neighbours.reach_another_container,
    neighbours.find_the_engine,
    neighbours.read_the_providers_key,
    neighbours.read_another_customers_files,
    handed_over.hand_over_bad_outputs,
    handed_over.hand_over_bad_images,
    handed_over.swap_the_image,
    handed_over.outlive_the_provider,
)
ATTEMPTS: Final[dict[str, EscapeAttempt]] = {attempt.name: attempt for attempt in _IN_ORDER}
