"""For spark-submit: `spark-submit jobs/compare.py ARGUMENTS` is `sparksplit compare ARGUMENTS`."""

from sparksplit.commands.compare import main
from sparksplit.commands.ending import end

if __name__ == "__main__":
    end(main())
