"""Telemetry records for tests."""

from gpu_tasks.provider.telemetry import Detail


class Heard:
    """Keeps telemetry records."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Detail]]] = []

    def tell(self, event: str, **fields: Detail) -> None:
        self.events.append((event, fields))

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def reasons(self, event: str) -> list[str]:
        return [str(fields["why"]) for name, fields in self.events if name == event]

    def codes(self, event: str) -> list[Detail]:
        return [fields["code"] for name, fields in self.events if name == event]

    def problems(self, event: str) -> list[Detail]:
        return [fields["problem"] for name, fields in self.events if name == event and "problem" in fields]
