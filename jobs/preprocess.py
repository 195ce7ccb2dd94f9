"""For spark-submit: `spark-submit jobs/preprocess.py ARGUMENTS` is `sparksplit preprocess ARGUMENTS`."""

import sys

from sparksplit.commands.preprocess import main

if __name__ == "__main__":
    sys.exit(main())
