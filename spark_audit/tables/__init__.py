"""The tables on storage. With ingest/topics, the only modules that touch storage or the network.

files        single files, local or by URI; AuditError
frames       DataFrames that are cheap to plan
delta        the Delta tables of a trail
findings     findings.json and table `findings`
writer_lock  one writer at a time on a local disk
retention    deletes old days, compacts small files
"""
