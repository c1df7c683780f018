"""The tampering matrix: whatever somebody does to the audit trail, what finds it, or why nothing can.

`make tamper` compares docs/tampering.md with a run; `make tamper EDITS=100000 SEED=1` makes random edits.
Each cell of the matrix is one edit of a trail of its own. The trails of all cells lie in the same tables, so
that the real jobs judge them together.

scene       one true trail per cell: its processes, their lines, the metadata log
topics      edits of both topics, and of the spool, before ingest reads them
tables      edits of the tables: columns and rows, before and after a run has signed them
files       edits of the files that the runs leave, of Delta's log and of the checkpoints
judging     the real jobs over all cells, and whose finding is whose
reasons     why an edit cannot be found
page        docs/tampering.md
sampling    random edits by the hundred thousand
"""
