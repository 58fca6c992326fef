"""What honest clients see, and what the processes cost, while the attacks run.

In reading order:

* `records`: what was seen, with times, and the figures of a stretch of time
* `honest`: at each door a client that tries it again and again, and times each try
* `disk`: how long the machine's disk takes for a small write
* `processes`: CPU time, memory and logs of the devnet's processes
"""
