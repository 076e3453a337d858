"""The scripted model: plays a script instead of calling a provider."""
