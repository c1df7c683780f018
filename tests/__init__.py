"""Tests: bytes in and effects out, or real processes (see docs/dev/flow.md and CONTRIBUTING)."""
