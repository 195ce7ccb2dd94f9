"""What operators of a cluster need beside the jobs: archives for spark-submit, and the check of a cluster."""
