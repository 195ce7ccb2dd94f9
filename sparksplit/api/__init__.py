"""What `import sparksplit` gives: the commands as functions, and what they return."""
