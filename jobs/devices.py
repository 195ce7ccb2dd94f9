"""For spark-submit: `spark-submit jobs/devices.py ARGUMENTS` is `sparksplit devices ARGUMENTS`."""

import sys

from sparksplit.commands.devices import main

if __name__ == "__main__":
    sys.exit(main())
