"""Pictures of the dashboard for the documentation: its queries over a live run, drawn without Grafana.

scraped   the metrics of running processes, every other second
live      the run: three brokers with their proxies, clients at work, a quota, rejected logins, restarts
drawing   panels and the lines of their queries in, SVG out
"""
