"""What the tools of the copilot do: Git, templates, files for platforms, staging, guidelines. No tool is in here."""
