"""`diagnose` of a preparation of data: where its time goes, by Spark's own metrics, and what would help."""
