"""What a run did, for programs (report.json) and for people (the funnel's table)."""
