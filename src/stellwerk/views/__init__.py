"""Views: folds over envelopes. Pure: the same log gives the same state, byte for byte."""
