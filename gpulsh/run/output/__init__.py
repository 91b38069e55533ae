"""Where results appear: the output folder, and the work folder in it."""
