"""Every pallet's world: the modules of `simulation/pallets/` register themselves by being there."""

from importlib import import_module
from pkgutil import iter_modules

from runtime.frame.runtime import Bound
from simulation import books, pallets
from simulation.actors import Value

_MODULES = [import_module(f"{pallets.__name__}.{found.name}") for found in iter_modules(pallets.__path__)]
WORLDS: tuple[books.PalletBooks, ...] = tuple(world for module in _MODULES for world in module.WORLDS)


def check_books(bound: Bound, issued: int) -> None:
    """Every grain has an owner, every held grain a case, and everything that is open a place in a schedule."""
    books.check_books(bound, issued, WORLDS)


def arguments() -> dict[str, Value]:
    """How the arguments of random calls are drawn: by name, or by call and name."""
    return {name: value for module in _MODULES for name, value in getattr(module, "ARGUMENTS", {}).items()}
