"""Graphs in processes of their own: the server drives a graph in a worker over a socket."""
