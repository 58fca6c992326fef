"""What a policy asks of the machine: the time of the week, and whether it does something else."""

from __future__ import annotations

import os
from datetime import UTC, datetime


class HostMachine:
    """This machine. Tests give another."""

    def time_of_week(self) -> tuple[int, int]:
        """Day (0: Monday) and minute of the day, UTC."""
        now = datetime.now(UTC)
        return now.weekday(), now.hour * 60 + now.minute

    def is_idle(self) -> bool:
        """Whether in the last minute less than half of its cores were wanted."""
        return os.getloadavg()[0] * 2 < (os.cpu_count() or 1)
