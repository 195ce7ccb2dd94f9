"""Callbacks of Keras and of the user, in `sparksplit.train(callbacks=[...])`: what each becomes, and how node 0 runs
it."""
