"""Processes that run jobs: started, spoken to over checked channels, watched, killed, and pooled."""
