"""Fuzzers of the doors: bad files, bad flags and files without an end, at every door of the command line.

`make fuzz` runs all of them; a slice runs with the tests.
"""
