"""The steward's workbench in a browser, on one machine: everything it does is a call of `sudare.app` or its neighbours.

server.py    `sudare studio`: a port on this computer, a one-time token, the browser
safety.py    who may ask what: host, session, origin, sizes, headers
web.py       routes and the look: templates, language, forms
project.py   the folder of the steward: tables, drafts, ledgers, releases
cards.py     a schema as cards that are edited and confirmed one by one
jobs.py      long work in a process of its own, which survives a closed page and tells how far it is
*_page.py    one for each page
"""
