"""What every room shares: errors, configuration, the command line, progress and the Spark session."""
