"""Reading: what the child process of ``extraction`` does with bytes. The server itself never imports it."""
