"""Another release of PySpark than the installed one, in an environment of its own in the user's cache."""

import fcntl
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.lab.cluster.kafka import cache_directory


def python_with(pyspark_version: str) -> Path:
    """Return its interpreter. It has our dependencies too, and is made if the cache does not have it.

    It takes 430 MB and a minute; CalledProcessError if the package cannot be installed.
    """
    place = (
        cache_directory()
        / f"pyspark-{pyspark_version}-python{sys.version_info.major}.{sys.version_info.minor}"
    )
    cache_directory().mkdir(parents=True, exist_ok=True)
    # A second process waits, and finds it there.
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            uv, python = str(Path(sys.executable).parent / "uv"), str(place / "bin" / "python")
            subprocess.run([uv, "--quiet", "venv", "--python", sys.executable, str(place)], check=True)
            install = [uv, "--quiet", "pip", "install", "--python", python, f"pyspark=={pyspark_version}"]
            subprocess.run(install, check=True)
            [own] = place.glob("lib/python*/site-packages")
            # After its own packages on the path, so that PySpark and Py4J are those of this environment.
            (own / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
            (place / "complete").touch()
    return place / "bin" / "python"
