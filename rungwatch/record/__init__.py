"""The record: one JSON document a run, from which every verdict can be recomputed."""
