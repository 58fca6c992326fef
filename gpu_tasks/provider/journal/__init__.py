"""What a provider's daemon must not forget, on disk before it acts.

In reading order:

records.py  what is written down
journal.py  the file that survives a power cut
"""
