"""The tables on storage. With ingest/topics, the only modules that touch storage or the network.

files        single files, local or by URI; AuditError
delta        the Delta tables of a trail, and their one writer
names        tables by the name of a catalog's schema -> their directory
plans        how Spark makes plans, by the size of a trail
findings     findings.json and table `findings`
keys         public keys, the secret of chains, and how a run is signed
runs         the runs of the manifest, and the summaries that stand for older ones
manifest     what each run judged, removed and wrote, signed
acknowledgements  findings that somebody has explained, as the manifest has them
expired      what was deleted as too old, so that no check misses it
retention    deletes old days, compacts small files
"""
