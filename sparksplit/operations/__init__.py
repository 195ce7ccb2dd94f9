"""What operators of a cluster need besides the jobs: archives for spark-submit, a check of the cluster, its devices."""
