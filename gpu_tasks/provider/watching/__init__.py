"""How a provider lets customers watch their tasks: notes to a broker, which never hold the work up.

In reading order:

* `outbox`: notes that wait for the broker; bounded
* `sender`: the connection to the broker, for as long as the daemon runs
* `broadcast`: from what the duties tell to notes in the outbox; beats, and what the devices are at
"""
