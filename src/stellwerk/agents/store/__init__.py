"""LangGraph's store: what graphs remember beyond a session, per tenant and, if wanted, per user."""
