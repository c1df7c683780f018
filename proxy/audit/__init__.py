"""What is written down about each thing that happened: one record, and its encoding.

record   the record's fields and its line of JSON (CloudEvents 1.0)
"""
