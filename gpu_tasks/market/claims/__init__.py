"""Claims and checks: one way to find a wrong result (docs/adr/0027-claims-and-checks.md).

A claim is a result that a provider wants to be paid for. The beacon draws some of its items. A validator checks them.
If provider and checker disagree, other validators vote. Two pallets, in reading order:

* `findings`: the statements of providers, checkers and voters, and the commitments before them
* `disputes`: the records of disputes
* `collateral`: the collateral that secures a result, and the fees of checks
* `claims`: the records of claims and their checks
* `money`: the money table: charges and payments of each event
* `handlers`: the interfaces of markets, and of pallets that open disputes
* `table_page`: the money table as Markdown
* `numbers`: the parameters of both pallets
* `voting`: the draw of voters, and the decisions
* `dispute_events`: the events and errors of Disputes
* `disputes_storage`: the storage of Disputes, and the validators that may vote
* `hearing`: a dispute from its opening to its ruling
* `disputes_pallet`: the pallet Disputes: votes of validators about one item, for any pallet
* `disputes_api`: queries of voters and explorers about disputes
* `draws`: the draws of points, second checks and checkers
* `convictions`: the false statements of a claim, given a vote
* `claim_events`: the events and errors of ResultClaims
* `claims_storage`: the storage of ResultClaims, and the validators that may check
* `claim_closing`: the money of a claim, and its end
* `checking`: the life of a claim
* `result_claims`: the pallet ResultClaims: claims with their checks, for any market
* `claims_api`: queries of providers, checkers and customers about claims
"""
