"""Plan a run before it is paid for: the time, the bytes and the memory of each strategy on up to 64 nodes."""
