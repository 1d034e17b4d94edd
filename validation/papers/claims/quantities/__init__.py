"""The quantities of the ledger, a module for each subject. Import through
`smlab.validation.papers.claims.registry.quantities`."""
