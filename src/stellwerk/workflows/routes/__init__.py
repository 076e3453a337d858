"""HTTP routes below /api/workflows."""
