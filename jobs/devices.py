"""For spark-submit: `spark-submit jobs/devices.py ARGUMENTS` is `sparksplit devices ARGUMENTS`."""

from sparksplit.commands.devices import main
from sparksplit.commands.ending import end

if __name__ == "__main__":
    end(main())
