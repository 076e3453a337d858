"""Recorded streams of LangChain and LangGraph as facts and envelopes."""
