"""Every error of a pallet's module belongs to a pallet. Otherwise clients would show it as "Other"."""

from collections.abc import Iterator

from genesis.chain import DEVELOPMENT_PALLETS, PALLETS
from runtime.frame.errors import DispatchError, ErrorValue

ROOMS = ("runtime.pallets.", "gpu_tasks.market.")


def below(kind: type[DispatchError]) -> Iterator[type[DispatchError]]:
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


def test_every_error_has_a_number() -> None:
    defined = {kind for kind in below(DispatchError) if kind.__module__.startswith(ROOMS)}
    listed = {kind for pallet in PALLETS + DEVELOPMENT_PALLETS for kind in pallet.errors}
    assert len(listed) > 40
    assert not {kind.__name__ for kind in defined if kind.value == ErrorValue(0)}
    assert {kind.__name__ for kind in defined - listed} == set()
