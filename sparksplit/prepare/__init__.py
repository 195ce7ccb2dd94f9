"""Raw rows to a prepared data set: reading, cutting, numbering, fitting, shuffling, and the dry run.

Where to read first: `preprocess` (the command), then `prepare` (how Spark makes the data set).
"""
