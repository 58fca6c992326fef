"""Relations: inequalities between the numbers of a chain, as data.

    Relation("unbonding outlasts evidence", ("TrustStake.unbonding_epochs",), ("TrustStake.evidence_epochs", 2), "why")

means that the sum on the left is at least the sum on the right. A term is a number, the name of a parameter or
constant, or a product of these: `(("TrustStake.history_eras", "TrustStake.era_epochs"), 3)`. `genesis` lists a chain's
relations.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Factor = int | str
Term = Factor | tuple[Factor, ...]
Terms = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """An inequality: `greater` is at least `less`, because of `reason`."""

    name: str
    greater: Terms
    less: Terms
    reason: str

    def names(self) -> tuple[str, ...]:
        """Return the names of its parameters and constants."""
        factors = (factor for term in (*self.greater, *self.less) for factor in _factors(term))
        return tuple(factor for factor in factors if isinstance(factor, str))

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return True if these values, by name, satisfy it."""
        return _sum(self.greater, values) >= _sum(self.less, values)

    def formula(self) -> str:
        """Return the inequality with names."""
        return f"{_written(self.greater)} >= {_written(self.less)}"

    def explained(self, values: Mapping[str, int]) -> str:
        """Return the inequality with the values of both sides, for people."""
        greater_sum, less_sum = _sum(self.greater, values), _sum(self.less, values)
        return f"{self.name}: {self.formula()} is {greater_sum} >= {less_sum}"


def _factors(term: Term) -> tuple[Factor, ...]:
    return term if isinstance(term, tuple) else (term,)


def _sum(terms: Terms, values: Mapping[str, int]) -> int:
    total = 0
    for term in terms:
        product = 1
        for factor in _factors(term):
            product *= values[factor] if isinstance(factor, str) else factor
        total += product
    return total


def _written(terms: Terms) -> str:
    return " + ".join(" x ".join(str(factor) for factor in _factors(term)) for term in terms)
