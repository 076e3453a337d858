"""Recordings: streams of the framework that somebody wrote down, as the same facts that the live source tells. Pure."""
