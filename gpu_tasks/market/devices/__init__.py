"""Who owns which GPU, what it is bonded with, what it works on."""
