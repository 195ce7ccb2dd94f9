"""For spark-submit: `spark-submit jobs/diagnose.py ARGUMENTS` is `sparksplit diagnose ARGUMENTS`."""

import sys

from sparksplit.commands.diagnose import main

if __name__ == "__main__":
    sys.exit(main())
