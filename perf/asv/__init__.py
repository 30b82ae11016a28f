"""The asv suite. asv imports every module here, so nothing of pytest may be among them."""
