"""Reproducing what papers report: the histogram case study (Dong & Pai) and the ledger of their claims."""
