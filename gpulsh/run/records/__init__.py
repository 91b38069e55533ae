"""The files of the work folder, as stages write and read them."""
