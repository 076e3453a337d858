"""Document readers: each turns one file type into content items, in a child process."""
