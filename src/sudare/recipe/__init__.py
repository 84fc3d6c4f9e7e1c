"""Several releases from one file, under one ledger."""
