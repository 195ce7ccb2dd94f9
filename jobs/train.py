"""For spark-submit: `spark-submit jobs/train.py ARGUMENTS` is `sparksplit train ARGUMENTS`."""

import sys

from sparksplit.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
