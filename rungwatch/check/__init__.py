"""The main job: run every required case, compare, and turn the outcome into a record."""
