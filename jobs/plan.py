"""For spark-submit: `spark-submit jobs/plan.py ARGUMENTS` is `sparksplit plan ARGUMENTS`."""

from sparksplit.commands.ending import end
from sparksplit.commands.plan import main

if __name__ == "__main__":
    end(main())
