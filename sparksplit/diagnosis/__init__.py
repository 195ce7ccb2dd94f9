"""`diagnose`: find the limit of a training run or of a preparation of data, and the settings that would help.

Training is measured with parts of the step left out. A preparation is measured by Spark's own metrics.
"""
