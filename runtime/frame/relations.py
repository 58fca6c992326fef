"""Relations: inequalities between the numbers of a chain, as data.

    Relation("unbonding outlasts evidence", ("TrustStake.unbonding_epochs",), ("TrustStake.evidence_epochs", 2), "why")

means that the sum on the left is at least the sum on the right. A term is a number, the name of a parameter or
constant, or a product of these: `(("Courts.seats", "Courts.judge_fee"), 3)`. `genesis` lists a chain's relations.
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
        all_factors = (
            term_factor for relation_term in (*self.greater, *self.less) for term_factor in _factors(relation_term)
        )
        return tuple(term_factor for term_factor in all_factors if isinstance(term_factor, str))

    def holds(self, values_by_name: Mapping[str, int]) -> bool:
        """Return True if these values, by name, satisfy it."""
        return _sum(self.greater, values_by_name) >= _sum(self.less, values_by_name)

    def formula(self) -> str:
        """Return the inequality with names."""
        return f"{_written(self.greater)} >= {_written(self.less)}"

    def explained(self, values_by_name: Mapping[str, int]) -> str:
        """Return the inequality with the values of both sides, for people."""
        greater_sum, less_sum = _sum(self.greater, values_by_name), _sum(self.less, values_by_name)
        return f"{self.name}: {self.formula()} is {greater_sum} >= {less_sum}"


def _factors(term: Term) -> tuple[Factor, ...]:
    return term if isinstance(term, tuple) else (term,)


def _sum(terms: Terms, values_by_name: Mapping[str, int]) -> int:
    term_sum = 0
    for relation_term in terms:
        product = 1
        for term_factor in _factors(relation_term):
            product *= values_by_name[term_factor] if isinstance(term_factor, str) else term_factor
        term_sum += product
    return term_sum


def _written(terms: Terms) -> str:
    return " + ".join(
        " x ".join(str(term_factor) for term_factor in _factors(relation_term)) for relation_term in terms
    )
