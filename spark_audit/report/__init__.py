"""Tables and findings -> one HTML page.

page        collects everything and fills the template
aggregates  the small tables of the page
plots       the geometry of its plots
history     who created, changed and deleted a resource, for `history`
coverage    what was checked, and the verdict
formatting  single values for the reader
"""
