"""Sessions at their provider: answers, vouchers, claims.

In reading order:

* `session_store`: vouchers, and the exchanges that they pay for, on the disk
* `served_session`: one session behind the tunnel, from period to period
* `live_hosts`: the workers that stream answers
* `session_items`: the requests of claimed periods, for checkers and voters
* `spare_proofs`: the proofs of a spare, computed, kept and sent
* `session_duty`: sessions on the chain: served, claimed, noted as paid
"""
