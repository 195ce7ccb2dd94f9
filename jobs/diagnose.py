"""For spark-submit: `spark-submit jobs/diagnose.py ARGUMENTS` is `sparksplit diagnose ARGUMENTS`."""

from sparksplit.commands.diagnose import main
from sparksplit.commands.ending import end

if __name__ == "__main__":
    end(main())
