"""What `coldcast` can do, one file a command."""
