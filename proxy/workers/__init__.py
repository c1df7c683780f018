"""Several processes on one port: `workers: N` in the proxy's configuration (docs/decisions 0016, 0017).

seat         what a worker is told at its start: which one it is, and the files it inherits
segment      the memory that all workers have together, and what lies where in it
table        rates and counts found by name in that memory
member       one worker's view of the group: rates, counts, how far the others' images are
control      a worker's answers to its supervisor; the end of that socket is the end of the supervisor
spools       where each worker's audit spool is, and those of workers that are no more
ports        addresses held for workers that come and go
child        one worker process as the supervisor sees it
supervisor   starts the workers and replaces those that die
front        answers HTTP for all of them
exposition   the metrics of all workers as those of one proxy
pages        their other pages
"""
