"""Tables and findings -> one HTML page: aggregates (Spark) -> plots (geometry) -> page (template)."""
