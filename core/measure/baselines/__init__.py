"""What costs are compared with: the time of NumPy, and the limits of the machine."""
