"""Dialects: translations of envelopes into the streams of other people's front ends."""
