"""The tuning loop: who is asked, what is measured, who is told."""
