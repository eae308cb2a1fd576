"""What is held against theory, published figures, and what was recorded."""
