"""The five methods: each a function from counts to a release that spends from a ledger. None sees rows."""
