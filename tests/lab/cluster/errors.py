"""What can keep the demo from being set up, in words for the person at the terminal."""


class SetupError(Exception):
    """Something the demo needs is not there or did not come up; the message says what, and what was seen."""
