"""One session between a customer and a provider, without input or output: both ends of its stream.

In reading order:

* `messages`: the messages of the stream, byte by byte
* `transcript`: the requests and answers of a period, and the totals that a voucher signs
* `provider_end`: what a provider may compute and send, and the vouchers that it takes
* `customer_end`: what a customer has received, and the vouchers that it owes
"""
