"""What forks the Python workers of the tests' executors: pyspark's own daemon, with less work around each task.

pyspark calls `importlib.invalidate_caches` before each task, which reads the directories of pyspark's and py4j's zip
files again, and `gc.collect` after it, which goes through all that was ever imported: 70 ms of CPU for a task of 5 ms.
Here pyspark comes from where the driver has it, not from a zip file, and what is imported at once is not gone through.
"""

from __future__ import annotations

import gc
import importlib
import sys


def main() -> None:
    sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")]:
        del sys.modules[name]
    daemon = importlib.import_module("pyspark.daemon")
    # A worker that replaces one whose task failed has them at once.
    for name in ("numpy", "pyarrow", "pandas"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
