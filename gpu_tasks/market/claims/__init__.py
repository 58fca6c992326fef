"""Claims and checks: one way to find a wrong result (docs/adr/0027-claims-and-checks.md).

A claim is a result that a provider wants to be paid for. The beacon draws some of its items. A validator checks them.
If provider and checker disagree, other validators vote. Two pallets, in reading order:

* `findings`: the statements of providers, checkers and voters, and the commitments before them
* `collateral`: the collateral that secures a result, and the fees of checks
* `money`: the money table: charges and payments of each event
* `table_page`: the money table as Markdown
* `numbers`: the parameters of both pallets
* `disputes`: the records of disputes
* `voting`: the draw of voters, and the decisions
* `dispute_events`, `disputes_storage`, `hearing`, `disputes_pallet`, `disputes_api`: votes of validators about one item
* `claims`, `draws`, `checking`, `result_claims`: claims with their checks, for any market
"""
