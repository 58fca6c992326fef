"""One session between a customer and a provider, without input or output: both ends of its stream.

In reading order:

* `messages`: the messages of the stream, byte by byte
* `transcript`: the requests and answers of a period, and the totals that a voucher signs
* `provider_end`: the provider: tokens that it may send, and vouchers that it takes
* `customer_end`: the customer: tokens that arrived, and vouchers that are due
"""
