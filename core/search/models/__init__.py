"""What models are given and how good they are: inputs, experience, reports."""
