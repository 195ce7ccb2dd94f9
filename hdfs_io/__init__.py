"""Storage: paths and file systems, the HDFS client, atomic publishing, leases and fences."""
