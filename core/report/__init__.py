"""What reports are made of: pages of HTML, and pictures drawn by matplotlib."""
