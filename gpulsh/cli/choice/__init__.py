"""What to choose before a run: what a banding finds, what texts are like, what each method finds among them."""
