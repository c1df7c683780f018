"""Tests: bytes in and effects out, or real processes (see docs/flow.md and CONTRIBUTING)."""
