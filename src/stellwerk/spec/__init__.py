"""The spec: agent systems as data. Pure: text in, a checked description out."""
