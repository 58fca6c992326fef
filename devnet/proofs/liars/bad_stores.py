"""Many units while one provider's store drips, one is full and one is gone: nobody honest pays, and every unit ends.

Always: the stores are bad from before the first unit until all have ended; then they are good again, and the market
must go on.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from devnet.launcher import processes
from devnet.launcher.layout import Devnet
from devnet.proofs.liars import judging, money, network, people, stores
from devnet.proofs.liars.lie import Program, StoreLie
from devnet.proofs.liars.people import Person
from devnet.proofs.liars.telling import LiarsTeller
from wallet.amounts import GRAINS_PER_OGPU
from wallet.client import ChainClient

BAD: Final[dict[str, StoreLie]] = {"Bob": stores.drips, "Charlie": stores.full, "Dave": stores.gone}
FUNDS_OF_A_UNIT = GRAINS_PER_OGPU // 5
SECONDS_OF_A_UNIT, SECONDS_AT_LEAST = 6.0, 120.0
LAST_UNITS = 12

_ENDED = re.compile(rb'"ended_in_block": [0-9]')


@dataclass(slots=True)
class BadStoresRun:
    """What came of it."""

    units: int
    seconds: float = 0.0
    ended: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    bonds_touched: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def last_line(self, seconds: float) -> str:
        """The figures of the run."""
        told = ", ".join(f"{name}'s {BAD[name].name} {count} times" for name, count in self.told.items())
        return (
            f"liars: {self.ended.get('units', 0)} units in {self.seconds:.0f} s beside bad stores ({told}): "
            f"{self.ended.get('settled', 0)} settled, {self.ended.get('refunded', 0)} refunded, "
            f"{len(self.bonds_touched)} honest bonds touched, {len(self.failures)} failures; {seconds:.0f} s in all"
        )


async def run_bad_stores(net: Devnet, doors: dict[str, int], units: int, tell: LiarsTeller) -> BadStoresRun:
    """Post the units, wait until they have ended, judge; the nodes of `net` run already."""
    run = BadStoresRun(units)
    customer = Person("honest", Program.CUSTOMER, net.folder / "people" / "honest")
    url = net.members[0].rpc_url
    async with contextlib.AsyncExitStack() as exits:
        providers = await network.start_providers(net, doors, exits)
        await people.fund(url, [customer], FUNDS_OF_A_UNIT * (units + LAST_UNITS))
        async with await ChainClient.connect(url) as chain:
            books = await money.opened(chain, [customer.account])
            async with money.kept(chain, books):
                for provider in providers:
                    provider.store.lie = BAD.get(provider.member.name)
                run.seconds = await _post(customer, url, units, run, tell.count_up())
                for provider in providers:
                    provider.store.lie = None
                    if provider.member.name in BAD:
                        run.told[provider.member.name] = provider.store.told
                await _post(customer, url, LAST_UNITS, run)
        run.failures += [f"{at.process.label} is dead" for at in providers if processes.running(at.process) is None]
    run.failures += [f"{name}'s store was never asked" for name, told in run.told.items() if not told]
    run.failures += books.ended_wrongly()
    run.bonds_touched = books.bonds_touched()
    run.ended = books.count_units()
    if run.ended["units"] != units + LAST_UNITS:
        run.failures.append(f"{run.ended['units']} units were posted instead of {units + LAST_UNITS}")
    if not any(books.market.unit(unit).settled for unit in books.moves[customer.account].units[-LAST_UNITS:]):
        run.failures.append("the market does not go on")
    return run


async def _post(
    customer: Person, url: str, units: int, run: BadStoresRun, advance: Callable[[int], None] = lambda _: None
) -> float:
    """Post and follow them; how long it took."""
    words = people.post_words(
        customer, [f"The tale of {units} days, day {number}" for number in range(units)], "--watch"
    )
    said = await people.command(
        customer, url, "--json", *words,
        patience=SECONDS_AT_LEAST + units * SECONDS_OF_A_UNIT,
        on_output=lambda text: advance(len(_ENDED.findall(text))),
    )  # fmt: skip
    # A unit that ended without a result is status 1, and may be.
    if said.status not in judging.STATUSES or judging.TRACEBACK in said.text:
        run.failures.append(f"`ogpu post` ended with {said.status}: {judging.shown(said.text)}")
    elif said.status == 2:
        run.failures.append(f"`ogpu post` could not post: {judging.shown(said.text)}")
    return said.seconds
