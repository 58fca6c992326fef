"""Sessions at their customer: a reserved place at a provider, answers token by token, and the vouchers that pay them.

In reading order:

* `session_store`: a session on this machine's disk
* `session_client`: requests and answers over a stream that may break, and payments as they become due
* `session_line`: that stream, through a tunnel
* `session_money`: the part of a deposit that may pay for tokens
* `session_reads`: sessions on the chain
* `chat`: turns become requests, and tokens become text
"""
