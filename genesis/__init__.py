"""Which chain this is: the one list of pallets, the parameters, the chain specification."""
