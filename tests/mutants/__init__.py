"""Faults that must not survive the tests: `make mutants` plants them one by one.

`faults.toml` lists them: a file, the text in it, what is planted instead, why that matters, and the tests that must see
it. A fault whose text is no longer in the source is an error (tests/mutants/test_faults.py runs with every `make
test`), so the list moves with the code.
"""
