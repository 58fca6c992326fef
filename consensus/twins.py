"""Headers by author and slot: an honest proposer seals one.

Always: headers of slots at or below the final block's are forgotten.
"""

from consensus.events import BlockFacts, ReportDoubleHeader


class Twins:
    """The headers of each author in each slot above the final one."""

    def __init__(self) -> None:
        """None yet."""
        self._known: dict[tuple[bytes, int], list[bytes]] = {}
        self._final_slot = -1

    def count(self, facts: BlockFacts) -> int:
        """How many headers are known of a block's author in its slot."""
        return len(self._known.get((facts.author, facts.slot), ()))

    def add(self, facts: BlockFacts) -> list[ReportDoubleHeader]:
        """One more; the report of an offence, if it is one."""
        headers = self._known.setdefault((facts.author, facts.slot), [])
        headers.append(facts.id)
        if len(headers) == 1:
            return []
        return [ReportDoubleHeader(facts.author, facts.slot, headers[0], facts.id)]

    def forget_to(self, final_slot: int) -> None:
        """Slots up to this one are settled."""
        if final_slot > self._final_slot:
            self._final_slot = final_slot
            self._known = {key: ids for key, ids in self._known.items() if key[1] > final_slot}
