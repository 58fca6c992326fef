"""The operations of a transformer that are no products of matrices, in multiplications that take as long.

They are measured with NumPy on one core of an EPYC that multiplies 16 billion times a second. It needs no NumPy.
"""

SCORE_OPERATIONS = 900
"""Of one score, beside its products: it took 60 to 80 ns."""
PASS_POSITIONS = 16
"""Of one pass, beside its positions: a pass reads all weights, however few positions it has."""
