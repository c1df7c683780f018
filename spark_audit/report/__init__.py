"""Tables and findings -> one HTML page.

plots       counts over time -> the geometry of a chart         (pure)
words       single values as a reader sees them                 (pure)
coverage    the document of findings -> the head of the page    (pure)
aggregates  records -> the page's small tables                  (Spark)
timeline    records -> what happened when                       (Spark)
page        all of it into the template
"""
