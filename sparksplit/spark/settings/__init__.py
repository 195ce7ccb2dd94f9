"""Everything that starts Spark: Java, the master, packages, and the settings of the user, of sparksplit and of the
cluster.
"""
