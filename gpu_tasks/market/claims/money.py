"""The money table of claims and disputes, as data: charges and payments in each outcome.

The pallets, the tests and the page `docs/claims.md` read `TABLE`.
"""
