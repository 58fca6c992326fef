"""Telemetry: signed notes about running work, sent from a provider to its customers over an untrusted broker.

In reading order:

* `notes`: the notes about a task, a device and the provider itself
* `envelope`: signed and numbered messages, sealed where they concern a customer's task
* `ledger`: a reader's check of received messages: new, missing, replayed or forged
* `broker`: a broker's address, and a connection with limits on the broker's traffic
"""
