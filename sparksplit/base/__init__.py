"""What every room shares: errors, configuration, records and progress."""
