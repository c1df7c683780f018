"""The demo's directory: empty at the start, never one that holds something else, never two runs in one."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.cluster.errors import SetupError

MARK = ".penstock-demo"


@contextmanager
def claim(directory: Path) -> Iterator[Path]:
    """The directory, empty but for the mark that it is ours; SetupError when it is not ours or in use."""
    directory = directory.resolve()
    mark = directory / MARK
    if directory.exists() and any(directory.iterdir()) and not mark.exists():
        raise SetupError(f"{directory} is not empty and not of an earlier demo: name another with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    with mark.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(f"another demo is running in {directory}") from None
        _clear(directory)
        yield directory


def _clear(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
