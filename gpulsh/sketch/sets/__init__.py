"""Sketches of sets: signatures whose values agree as often as sets are similar."""
