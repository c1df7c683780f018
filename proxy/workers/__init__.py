"""Several processes on one port: `workers: N` in the proxy's configuration (docs/decisions 0016, 0017).

seat         the arguments of a worker: its number, and the files that it inherits
segment      the shared memory, its layout, and the rates, counts and hosts by name in it
group        what a process shares with others; a process alone is a group of one
member       one worker's view of the group: rates, counts, offsets of the others' images
control      the control connection between a worker and its supervisor
spools       the audit spool of each worker, and spools of workers that no longer exist
child        one worker process as the supervisor sees it
supervisor   reserves the addresses, starts the workers and replaces those that die
front        serves HTTP for all workers, and merges their JSON pages
exposition   merges the metrics of all workers
"""
