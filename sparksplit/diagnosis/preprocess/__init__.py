"""`diagnose` of a preparation of data: where its time goes, by Spark's own metrics, and settings that would help."""
