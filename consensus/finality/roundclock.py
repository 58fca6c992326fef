"""The clock of a gadget round: since when there is something to make final, and when votes are repeated.

Always: it stands while there is no work, so that an idle network neither skips rounds nor repeats votes.
"""

from consensus.parameters import Parameters


class RoundClock:
    """Milliseconds of one round; `restart` begins the next."""

    def __init__(self, parameters: Parameters) -> None:
        """Not running."""
        self._parameters = parameters
        self.restart()

    def restart(self) -> None:
        """A round is entered."""
        self._work_since_ms: int | None = None
        self._repeat_at_ms = 0

    @property
    def is_running(self) -> bool:
        """Whether the round has something to make final."""
        return self._work_since_ms is not None

    def keep(self, now_ms: int, *, has_work: bool) -> None:
        """Run while there is work, stand while there is none."""
        if not has_work:
            self.restart()
        elif self._work_since_ms is None:
            self._work_since_ms = now_ms
            self._repeat_at_ms = now_ms + 2 * self._parameters.resend_ms

    def has_waited(self, now_ms: int, wait_ms: int) -> bool:
        """Whether the round has had work for so long."""
        return self._work_since_ms is not None and now_ms >= self._work_since_ms + wait_ms

    def postpone(self) -> None:
        """A vote was just sent: repeat that much later."""
        self._repeat_at_ms += self._parameters.resend_ms

    def is_time_to_repeat(self, now_ms: int) -> bool:
        """Whether votes and questions are due to be sent again; then the next time is set."""
        if self._work_since_ms is None or now_ms < self._repeat_at_ms:
            return False
        self._repeat_at_ms = now_ms + self._parameters.resend_ms
        return True

    def deadline_ms(self, now_ms: int, timeout_ms: int) -> int | None:
        """When the round has something to do next without an event."""
        if self._work_since_ms is None:
            return None
        ends = [self._work_since_ms + wait for wait in (self._parameters.soft_wait_ms, timeout_ms)]
        return min([self._repeat_at_ms, *(end for end in ends if end > now_ms)])
