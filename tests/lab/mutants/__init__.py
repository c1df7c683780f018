"""`make mutants`: change one expression of the product at a time, and see whether a test fails.

docs/dev/lab.md has the score and how to read it, docs/decisions/0061-mutants.md why it is made like this.

- `covering`: which test runs which line
- `making`: the changes, made by mutmut's operators
- `running`: one process for each mutant, with the tests that run its line
"""
