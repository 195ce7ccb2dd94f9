"""A process that is one node which sums through shared memory again and again; test_shared_processes.py starts it.

    python shared_node.py RANK SIZE ELEMENTS SUMS

Lines of JSON: it asks its standard output for what `gather` is to return, and is answered on its standard input.
"""

import hashlib
import json
import sys
import time

import numpy as np

from sparksplit.base.errors import PeerLost
from sparksplit.collectives.shared import Shared


def say(**fields):
    print(json.dumps(fields), flush=True)


def gather(name, value):
    say(gather=name, value=value)
    return json.loads(sys.stdin.readline())


def main(rank, size, elements, sums):
    digest = hashlib.sha256()
    generator = np.random.default_rng(rank)
    shared = Shared.connect(rank, size, b"secret", gather, lambda waiting: say(waiting=waiting))
    try:
        for count in range(sums):
            given = [generator.standard_normal(elements).astype(np.float32), np.array(count, np.int64)]
            for found in shared.sum(given):
                digest.update(found)
            say(sums=count + 1)
    except PeerLost as error:
        say(lost=str(error))
        sys.exit(3)
    say(digest=digest.hexdigest(), cpu=time.process_time())
    shared.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
