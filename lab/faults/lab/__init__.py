"""What the fault laboratory is made of: see ../README.md."""
