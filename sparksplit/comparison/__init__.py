"""`sparksplit compare`: run strategies side by side, analyse the runs, and report which strategy to use."""
