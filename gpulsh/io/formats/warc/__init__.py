"""WARC and WET: archives of web crawls."""
