"""Tools for operators of a cluster: archives for spark-submit, a check of the cluster, measurements of its devices."""
