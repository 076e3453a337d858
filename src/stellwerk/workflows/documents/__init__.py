"""Documents of workflows: content extraction, writers, and the tools that agents use on them."""
