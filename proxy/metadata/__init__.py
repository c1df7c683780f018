"""To be mapped."""
