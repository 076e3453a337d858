"""Every setting of an agent, each in a real graph run."""
