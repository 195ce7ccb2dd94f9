"""For spark-submit: `spark-submit jobs/check.py ARGUMENTS` is `sparksplit check ARGUMENTS`."""

from sparksplit.commands.check import main
from sparksplit.commands.ending import end

if __name__ == "__main__":
    end(main())
