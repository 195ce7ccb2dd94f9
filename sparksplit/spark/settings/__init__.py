"""What Spark is started with: Java, the master, packages, and settings of the user's, ours and of the cluster."""
