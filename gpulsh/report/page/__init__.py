"""report.html: what a run did, for people, from report.json alone."""
