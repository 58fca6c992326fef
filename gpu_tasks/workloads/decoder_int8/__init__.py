"""`decoder-int8`: models of the Llama family in exact integers."""
