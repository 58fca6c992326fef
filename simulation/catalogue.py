"""The books and the random arguments of all pallets, from the modules found in `simulation/pallets/`."""

from importlib import import_module
from pkgutil import iter_modules

from runtime.encoding.types import Weight
from runtime.frame.runtime import Bound
from simulation import books, pallets
from simulation.actors import Value

_MODULES = [import_module(f"{pallets.__name__}.{found.name}") for found in iter_modules(pallets.__path__)]
WORLDS: tuple[books.PalletBooks, ...] = tuple(world for module in _MODULES for world in module.WORLDS)
HOOKS: tuple[tuple[Weight, Weight], ...] = tuple(hook for module in _MODULES for hook in getattr(module, "HOOKS", ()))
"""The budgets of the pallets' hooks, each with its last piece: a hook finishes a piece that it began within its budget.
"""
HOOKS_MAX = Weight(sum(budget.ref_time + last_piece.ref_time for budget, last_piece in HOOKS), 0)
"""The largest weight of the hooks of one block."""


def check_books(bound: Bound, issued: int) -> None:
    """Check that every grain has an owner, every held grain a case, and every open item a place in a schedule."""
    books.check_books(bound, issued, WORLDS)


def arguments() -> dict[str, Value]:
    """Return the random arguments of calls, by argument name, or by call and argument name."""
    return {name: value for module in _MODULES for name, value in getattr(module, "ARGUMENTS", {}).items()}
