"""What operators of a cluster need besides the jobs: archives for spark-submit, and a check of the cluster."""
