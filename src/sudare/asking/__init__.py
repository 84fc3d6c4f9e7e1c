"""Questions in SQL to a release: the grammar, what a statement means as sums over records, and answers with intervals.

No row is near: whoever answers (`protocol.Answerer`) gives weighted counts of a published view or table.
"""
