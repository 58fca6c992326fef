"""The commands of `ogpu-provider`.

In reading order:

running.py   run: the daemon
showing.py   devices, status
joining.py   register
offering.py  offer, withdraw-offer, pause, resume
leaving.py   unregister, withdraw-bond
making.py    a call is tried, or made and waited for
naming.py    which device a text means
options.py   what all commands share
"""
