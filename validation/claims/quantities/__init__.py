"""The quantities of the ledger, a module for each subject. Import through `validation.claims.registry.quantities`."""
