"""A small schema and the beginning of a recipe, for the tests of `sudare run`."""

SCHEMA = """\
[sudare]
schema = 1
name = "members"

[[attribute]]
name = "item"
kind = "category"
values = ["h1", "h2", "h3"]

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = { start = 0, stop = 100, width = 20 }
hierarchy = { intervals = [40] }
"""
HEAD = """\
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "releases"

[ledger]
file = "members.ledger"
budget = "2"
"""
RECORDS = '\n[[release]]\nname = "records"\npublish = "microdata"\nepsilon = "1/2"\n'
