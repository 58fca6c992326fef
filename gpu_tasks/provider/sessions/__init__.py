"""Sessions at their provider: answers, vouchers, claims.

In reading order:

* `session_store`: vouchers, and the exchanges that they pay for, on the disk
* `served_session`: one session behind the tunnel, from period to period
"""
