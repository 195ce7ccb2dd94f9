"""A process that is one node which sums again and again; processes.py starts it.

    python summing_node.py '{"rank": 0, "size": 4, "elements": 1000, "sums": 2000, "collective": "mixed", ...}'

collective: by its name. address: this node's own. hosts: by rank, a letter for each host; null: they are what they are.
late: [every, seconds]: how often this node sleeps before a sum, and for how long. Lines of JSON: it asks its standard
output for what `gather` is to return, and is answered on its standard input.
"""

import hashlib
import json
import socket
import sys
import time
from types import SimpleNamespace

import numpy as np

from sparksplit.base.errors import PeerLost
from sparksplit.collectives import join
from sparksplit.network.listening import ANY


def say(**fields):
    print(json.dumps(fields), flush=True)


def gather(name, value):
    say(gather=name, value=value)
    return json.loads(sys.stdin.readline())


def joined(rank, size, collective, address, hosts):
    def gathered(name, value):
        found = gather(name, value)
        if hosts and name == "shared memory":
            found = [[host, *each[1:]] for host, each in zip(hosts, found, strict=True)]
        return found

    member = SimpleNamespace(
        rank=rank, size=size, host=address, secret=b"secret", gather=gathered, network=ANY, state=say
    )
    if collective == "tensorflow":
        with socket.create_server((address, 0)) as server:
            places = [f"{address}:{port}" for port in gather("port", server.getsockname()[1])]
        task = {"type": "worker", "index": rank - 1} if rank else {"type": "chief", "index": 0}
        member.tf_config = {"cluster": {"chief": places[:1], "worker": places[1:]}, "task": task}
    return join(collective, None, member)


def given(rank, elements, sums):
    """What a node gives to each sum."""
    generator = np.random.default_rng(rank)
    for count in range(sums):
        yield [generator.standard_normal(elements).astype(np.float32), np.array(count, np.int64)]


def main(rank, size, elements, sums, collective, address="127.0.0.1", hosts=None, late=None):
    digest = hashlib.sha256()
    made = joined(rank, size, collective, address, hosts)
    say(collective=made.name)
    try:
        for count, arrays in enumerate(given(rank, elements, sums)):
            if late and count % late[0] == late[0] - 1:
                time.sleep(late[1])
            for found in made.sum(arrays):
                digest.update(np.ascontiguousarray(found))
            say(sums=count + 1)
    except PeerLost as error:
        say(lost=str(error))
        sys.exit(3)
    say(digest=digest.hexdigest(), cpu=time.process_time())
    made.close()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
