"""Every error of a pallet's module belongs to a pallet. Otherwise clients would show it as "Other"."""

from collections.abc import Iterator

from genesis.chain import DEVELOPMENT_PALLETS, PALLETS
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from runtime.frame.errors import DispatchError, ErrorValue

ROOMS = ("runtime.pallets.", "gpu_tasks.market.")
UNLISTED = (Disputes, ResultClaims)
"""Pallets that no chain has yet."""


def below(kind: type[DispatchError]) -> Iterator[type[DispatchError]]:
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


def test_every_error_has_a_number() -> None:
    defined = {kind for kind in below(DispatchError) if kind.__module__.startswith(ROOMS)}
    listed = {kind for pallet in PALLETS + DEVELOPMENT_PALLETS + UNLISTED for kind in pallet.errors}
    assert len(listed) > 40
    assert not {kind.__name__ for kind in defined if kind.value == ErrorValue(0)}
    assert {kind.__name__ for kind in defined - listed} == set()
