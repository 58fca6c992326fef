"""Notes to a broker, with which customers watch their tasks. They never delay the work.

In reading order:

* `outbox`: a bounded queue of notes for the broker
* `sender`: the connection to the broker, for as long as the daemon runs
* `broadcast`: events of the duties as notes, with beats and device readings
"""
