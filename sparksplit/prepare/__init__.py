"""Turns raw rows into a prepared data set: reading, cutting, numbering, fitting, shuffling, and the dry run.

Read `preprocess` (the command) first, then `prepare` (the Spark jobs that make the data set).
"""
