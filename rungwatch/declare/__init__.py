"""What is guarded: kernel declarations, problems, and how kernel files are found and read."""
