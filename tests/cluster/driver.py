"""A driver in a process of its own, for tests that end it: arguments are the folder and the number of nodes."""

from __future__ import annotations

import sys

from sparksplit.cluster import NodeCluster
from sparksplit.spark.session import spark_session


def main() -> None:
    folder, nodes = sys.argv[1], int(sys.argv[2])
    with spark_session("a driver to be ended", executors=nodes) as spark:
        payload = {"folder": folder, "rank": nodes}
        NodeCluster(spark, nodes, "tests.cluster.works:suffer", payload).run()


if __name__ == "__main__":
    main()
