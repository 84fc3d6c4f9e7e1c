"""The desk: data users ask for tailor-made tables over the network, stewards answer; `sudare desk`.

    accounts.py   who may enter: invitations, passwords, sessions, limits
    store.py      one file for accounts, public tables, work for the worker, and a chained record of what was done
    pages.py      the pages of data users, stewards and auditors
    work.py       the steward's worker, the only process that opens the table: measure, grant, deliver
    server.py     the address, and what is in front of it

The desk's own process reads the schema, the policy, the requests and the verdict file of a table. It is given neither
the table nor its history, so that a hole in a page shows no row.
"""
