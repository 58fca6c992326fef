"""Sessions: a reserved place at a provider, paid by the customer's vouchers.

In reading order:

* `vouchers`: the customer's signed promises to pay, off the chain
"""
