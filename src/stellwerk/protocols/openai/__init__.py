"""OpenAI's API: models, chat completions and responses."""
