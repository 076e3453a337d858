"""Data folders that earlier versions wrote, and what their streams said."""
