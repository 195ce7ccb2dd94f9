"""The content of `import sparksplit`: the commands as functions, and their results."""
