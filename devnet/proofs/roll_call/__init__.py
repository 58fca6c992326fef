"""A roll call over real nodes and daemons: who answers may work, also a daemon that was killed; who lies may not.

In reading order:

* `judging`: what the final chain must say of each device, and what its provider must be told
* `course`: enrol, answer, kill, withdraw
"""
