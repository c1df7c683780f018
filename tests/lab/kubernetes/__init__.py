"""The chart on a real Kubernetes API server: see __main__."""
