"""AG-UI, the protocol of CopilotKit and others."""
