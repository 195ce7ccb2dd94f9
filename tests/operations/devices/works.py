"""Interpreters for the tests of `ask`: what they do is what `threads` of their order says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

order = json.loads(sys.stdin.readline())


def tell(name, value):
    print(json.dumps([name, value]), flush=True)


tell("doing", "products")
tell("products", {"device": "CPU:0"})
print("failed call to cuInit: no such driver", file=sys.stderr, flush=True)
with open(os.path.join(os.environ["TMPDIR"], "left"), "w") as file:  # noqa: PTH118, PTH123
    file.write("behind")
way = order["threads"]
if way == 1:
    tell("small_products", {"gpus": os.environ.get("CUDA_VISIBLE_DEVICES")})
elif way == 2:
    time.sleep(600)
elif way == 3:
    os.kill(os.getpid(), signal.SIGKILL)
elif way == 4:
    tell("usage", "conf/x.yaml:3: model.build: no such layer")
    sys.exit(1)
elif way == 5:
    tell("failed", "ResourceExhaustedError: OOM")
    sys.exit(1)
elif way == 6:
    print("no such module", file=sys.stderr, flush=True)
    sys.exit(3)
elif way == 7:
    # What holds the pipes open must not hold the command.
    subprocess.Popen(["sleep", "5"])
