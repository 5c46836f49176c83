"""What runs inside each library's own environment; none of it imports the harness."""
