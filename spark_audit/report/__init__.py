"""Tables and findings -> one HTML page.

page        collects everything and fills the template
aggregates  the small tables of the page
plots       the geometry of its plots
coverage    what was checked, and the verdict
formatting  single values for the reader
"""
